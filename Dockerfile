# syntax=docker/dockerfile:1
#
#   docker build --target operator --tag rackspan:0.1.0 .
#
# Spark stays out: nothing here installs the `spark` extra, and .dockerignore lets in only what is copied below.

# Any image with CPython 3.11 or newer, for example a mirror's.
ARG BASE_IMAGE=python:3.12-slim

# --- build: dependencies from the lock, Rackspan from this checkout, both in one virtual environment --------------------
FROM ${BASE_IMAGE} AS build
WORKDIR /src
# No pip in the environment that is shipped: the base image's own fills it.
RUN python -m venv --without-pip /opt/rackspan
# The lock changes less often than the code: this layer is kept. Wheels only, so that no compiler is ever needed.
COPY requirements/operator.lock requirements/dev.lock requirements/
RUN python -m pip --python /opt/rackspan/bin/python install --no-cache-dir --only-binary=:all: --require-hashes --requirement requirements/operator.lock
# The build backend and what it needs, out of the lock: build isolation would fetch whatever is newest.
RUN awk '/^[a-z]/ { wanted = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/ } wanted' requirements/dev.lock > build.lock
RUN python -m pip install --no-cache-dir --only-binary=:all: --require-hashes --requirement build.lock
COPY pyproject.toml README.md LICENSE ./
COPY operator/ operator/
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist .
RUN python -m pip --python /opt/rackspan/bin/python install --no-cache-dir --no-deps --no-index dist/rackspan-*.whl

# --- operator: the image that the chart runs ---------------------------------------------------------------------------
FROM ${BASE_IMAGE} AS operator
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rackspan" \
      org.opencontainers.image.description="A Kubernetes operator for Kafka topics whose replicas must survive the loss of a rack, a zone or a data centre." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/rackspan /opt/rackspan
ENV PATH=/opt/rackspan/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number: Kubernetes cannot tell from a name that it is not root.
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["rackspan"]
CMD ["operator"]
