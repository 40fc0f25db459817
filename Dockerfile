# The server as an image: no root, nothing written outside /data, a health check that asks what a client would ask.
#
#   docker build -t kafka-group-coordinator .
#   docker run -p 9092:9092 kafka-group-coordinator
#
# Every Python package is pinned by hash. The base image is named by tag, so that its security updates arrive; to pin it as well:
#   docker build --build-arg BASE=python:3.11-slim@sha256:... -t kafka-group-coordinator .

ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /build
RUN python3 -m venv --without-pip /opt/coordinator
COPY requirements/image.txt requirements/
RUN pip --python /opt/coordinator/bin/python3 install -q --no-cache-dir --no-compile --require-hashes -r requirements/image.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol_schemas protocol_schemas
COPY config config
COPY coordinator coordinator
COPY coordinator_lab coordinator_lab
COPY coordinator_testing coordinator_testing
COPY pyspark_coordinator_log pyspark_coordinator_log
# Compiled here, because the file system that it runs on is read-only; setuptools was for building.
RUN pip --python /opt/coordinator/bin/python3 install -q --no-cache-dir --no-compile --no-deps --no-build-isolation . \
    && pip --python /opt/coordinator/bin/python3 uninstall -q -y setuptools \
    && rm -rf /opt/coordinator/lib/python3.11/site-packages/uvloop/loop.c \
    && python3 -m compileall -q -j 0 /opt/coordinator/lib \
    && COORDINATOR_CACHE_DIR=/opt/coordinator/cache /opt/coordinator/bin/coordinator protocol precompile \
    && chmod -R a+rX /opt/coordinator/cache

# The bill of materials: what is installed, by a tool that is not.
FROM build AS sbom
COPY requirements/sbom.txt requirements/
RUN python3 -m venv --without-pip /opt/sbom \
    && pip --python /opt/sbom/bin/python3 install -q --no-cache-dir --require-hashes -r requirements/sbom.txt \
    && /opt/sbom/bin/cyclonedx-py environment /opt/coordinator/bin/python3 --pyproject pyproject.toml --mc-type application \
        --output-reproducible --of JSON -o /sbom.cdx.json

# A producer and a consumer for docker-compose.yml, with a client library that the server has no use for.
FROM ${BASE} AS example
COPY requirements/example.txt requirements.txt
RUN pip install -q --no-cache-dir --require-hashes -r requirements.txt
COPY examples /examples
USER 10001:10001
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["python3"]

FROM ${BASE}
COPY --from=build /opt/coordinator /opt/coordinator
COPY config/container.yaml /etc/coordinator/coordinator.yaml
COPY container/bin /usr/local/bin
# For Testcontainers' Kafka modules, whose start scripts call and change these files.
COPY container/kafka /etc/kafka/docker
COPY --chown=10001:10001 container/confluent /etc/confluent/docker
COPY LICENSE /usr/share/doc/kafka-group-coordinator/LICENSE
COPY --from=sbom /sbom.cdx.json /usr/share/doc/kafka-group-coordinator/
RUN mkdir /data && chown 10001:10001 /data /etc/confluent/docker
ENV PATH=/opt/coordinator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 COORDINATOR_CACHE_DIR=/opt/coordinator/cache
USER 10001:10001
VOLUME /data
EXPOSE 9092 9644
HEALTHCHECK --interval=5s --timeout=5s --start-period=5s --retries=3 \
    CMD ["coordinator", "ready", "--config", "/etc/coordinator/coordinator.yaml"]
WORKDIR /tmp
ENTRYPOINT ["entrypoint"]
CMD ["serve", "--config", "/etc/coordinator/coordinator.yaml"]
