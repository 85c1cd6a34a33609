# An image with Rowcall and its extras: docker build -t rowcall . && docker run --rm rowcall demo
FROM python:3.13-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir '.[cron,http,metrics,mysql,postgres,uvloop]'
WORKDIR /app
ENTRYPOINT ["rowcall"]
CMD ["--help"]
