"""`Value`: the base class of every frozen snapshot that a user receives."""

import typing

import msgspec

from rowcall.domain.errors import refuse_unknown

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class OptionsMeta(type(msgspec.Struct)):  # type: ignore[misc]
    """The class of values that users make: an unknown field is refused as an unknown option is."""

    if not typing.TYPE_CHECKING:  # type checkers look at the fields

        def __call__(self, *args: object, **options: object) -> object:
            refuse_unknown(options, self.__struct_fields__)
            return super().__call__(*args, **options)


class Value(msgspec.Struct, frozen=True):
    """A frozen value: hashable, and ready for JSON with `to_dict()` and `to_json()`.

    FastAPI serializes it as a return value, annotated or not.
    """

    _hidden: typing.ClassVar[tuple[str, ...]] = ()
    """Fields that are shown nowhere."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.keys())})"

    def to_dict(self) -> dict[str, object]:
        """Return all fields as values that JSON can hold; times are ISO 8601 texts."""
        return {name: self[name] for name in self.keys()}

    def to_json(self) -> str:
        """Return all fields as a JSON object."""
        return msgspec.json.encode(self.to_dict()).decode()

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields, so that `dict(value)` equals `value.to_dict()`."""
        return tuple(name for name in self.__struct_fields__ if name not in self._hidden)

    def __getitem__(self, name: str) -> object:
        if name not in self.keys():
            raise KeyError(name)
        return _plain(getattr(self, name))

    def __hash__(self) -> int:
        fields = (getattr(self, name) for name in self.__struct_fields__)
        return hash(tuple(field for field in fields if not isinstance(field, dict | list)))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        def schema_of(annotation: object) -> "CoreSchema":
            if cls in typing.get_args(annotation):  # refers to itself: its schema would be infinite
                return core_schema.any_schema(serialization=core_schema.plain_serializer_function_ser_schema(_plain))
            return handler.generate_schema(annotation)

        hints = typing.get_type_hints(cls)
        shown = [field for field in msgspec.structs.fields(cls) if field.name not in cls._hidden]
        schemas = {field.name: schema_of(hints[field.name]) for field in shown}
        accepted = {
            field.name: core_schema.typed_dict_field(schemas[field.name], required=field.required) for field in shown
        }
        written = {name: core_schema.typed_dict_field(schema) for name, schema in schemas.items()}

        def value_of(value: object, validate: "Callable[[object], dict[str, object]]") -> Value:
            return value if isinstance(value, cls) else cls(**validate(value))

        def fields_of(value: Value) -> dict[str, object]:
            return {name: getattr(value, name) for name in written}

        return core_schema.no_info_wrap_validator_function(
            value_of,
            core_schema.typed_dict_schema(accepted, cls_name=cls.__name__),
            serialization=core_schema.plain_serializer_function_ser_schema(
                fields_of, return_schema=core_schema.typed_dict_schema(written, cls_name=cls.__name__)
            ),
        )


def _plain(value: object) -> object:
    """Return the value as JSON has it."""
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    plain: object = msgspec.json.decode(msgspec.json.encode(value, enc_hook=dict))
    return plain
