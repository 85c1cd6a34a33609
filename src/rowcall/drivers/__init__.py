"""Run plans: on Rowcall's own connections and transactions, or on a caller's."""
