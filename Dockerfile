# syntax=docker/dockerfile:1
#
#   docker build --target operator --tag rackspan:0.1.0 .
#   docker build --target scan --tag rackspan-scan:0.1.0 .
#
# The operator's image stays free of Spark: only the stages of the scan install it. .dockerignore lets in only what is
# copied below.

# Any image of Debian with CPython 3.11 or newer, for example a mirror's. Only the scan needs Debian, for its Java.
# A tag moves, and a digest does not: Renovate writes it here, python:3.12-slim@sha256:..., and keeps it new.
ARG BASE_IMAGE=python:3.12-slim

# --- build: dependencies from the lock, Rackspan from this checkout, both in one virtual environment --------------------
FROM ${BASE_IMAGE} AS build
WORKDIR /src
# The bytecode is checked by the source's hash then, not by its time, and packages have the same bytes each time.
ENV SOURCE_DATE_EPOCH=1580601600
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
      org.opencontainers.image.source="https://github.com/rackspan/rackspan" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/rackspan /opt/rackspan
# As Strimzi's brokerRackInitImage it is called by this name: docs/racks.md.
COPY images/strimzi-rack.sh /opt/strimzi/bin/kafka_init_run.sh
ENV PATH=/opt/rackspan/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number: Kubernetes cannot tell from a name that it is not root.
USER 10001:10001
EXPOSE 8080
ENTRYPOINT ["rackspan"]
CMD ["operator"]

# --- spark: what the scan stands on, from its lock. The code comes later, because this is large and seldom changes -------
FROM ${BASE_IMAGE} AS spark
WORKDIR /src
ENV SOURCE_DATE_EPOCH=1580601600
RUN python -m venv --without-pip /opt/rackspan
COPY requirements/scan.lock requirements/dev.lock requirements/
# PySpark is published as a source archive with Spark's jars in it: it is the one package that has to be built here.
RUN awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' requirements/dev.lock > build.lock
RUN awk '/^[a-z]/ { wanted = /^pyspark==/ } wanted' requirements/scan.lock > pyspark.lock
RUN awk '/^[a-z]/ { wanted = !/^pyspark==/ } wanted' requirements/scan.lock > wheels.lock
RUN python -m pip install --no-cache-dir --only-binary=:all: --require-hashes --requirement build.lock
RUN python -m pip --python /opt/rackspan/bin/python install --no-cache-dir --only-binary=:all: --require-hashes --requirement wheels.lock
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes --wheel-dir dist --requirement pyspark.lock
RUN python -m pip --python /opt/rackspan/bin/python install --no-cache-dir --no-deps --no-index dist/pyspark-*.whl
# One path to it, whichever Python this is.
RUN ln -s "$(cd /opt/rackspan && echo lib/python3.*/site-packages/pyspark)" /opt/rackspan/spark
# The time that a release gives to all files: below, Java notes what time its jars have.
RUN touch --date="@$SOURCE_DATE_EPOCH" /opt/rackspan/spark/jars/*

# --- code: Rackspan once more, as files to be laid over that environment -------------------------------------------------
FROM build AS code
RUN python -m pip --python /opt/rackspan/bin/python install --no-cache-dir --no-deps --no-index --ignore-installed --root /added dist/rackspan-*.whl

# --- scan: the image of the compliance scans, of Spark's drivers and of its executors ------------------------------------
FROM ${BASE_IMAGE} AS scan
# The distribution's own Java, 17 or newer. Hadoop's libraries insist that their user has a name.
RUN apt-get update && apt-get install --yes --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 rackspan && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp rackspan
COPY --from=spark /opt/rackspan /opt/rackspan
COPY --from=code /added/opt/rackspan /opt/rackspan
# A SparkApplication submits a file.
COPY --from=code /src/operator/rackspan/__main__.py /opt/rackspan/scan.py
COPY images/scan-entrypoint.sh /usr/local/bin/scan-entrypoint
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rackspan-scan" \
      org.opencontainers.image.description="Compliance scans of Rackspan, on Apache Spark." \
      org.opencontainers.image.source="https://github.com/rackspan/rackspan" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Nothing is written but to /tmp, so that the root file system may be read-only.
ENV PATH=/opt/rackspan/bin:$PATH \
    HOME=/tmp \
    JAVA_HOME=/usr/lib/jvm/default-java \
    PYSPARK_PYTHON=/opt/rackspan/bin/python \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SPARK_HOME=/opt/rackspan/spark
WORKDIR /tmp
# Spark starts in half the time with it.
RUN python -m rackspan.jobs.spark.class_archive && rm -rf /tmp/*
USER 10001:10001
ENTRYPOINT ["scan-entrypoint"]
CMD ["scan", "--help"]
