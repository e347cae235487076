# Two stages: wheels are built in the first, the second holds Python, Muster and nothing to build with.
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE .ci/sbom ./
COPY muster ./muster
COPY coordinator ./coordinator
COPY protocol ./protocol
COPY storage ./storage
COPY pipeline ./pipeline
RUN python3 -m venv /opt/muster \
 && /opt/muster/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/muster/bin/pip uninstall --yes pip setuptools \
 && /opt/muster/bin/python sbom > /opt/muster/sbom.json \
 && find /opt/muster -name __pycache__ -prune -exec rm -rf {} + \
 && /opt/muster/bin/python -m compileall -q /opt/muster/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="muster" \
      org.opencontainers.image.description="A standalone Kafka group coordinator: a test double and a small server that unmodified Kafka clients connect to" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/muster /opt/muster
# The scripts that the Kafka modules of Testcontainers start, at the paths of apache/kafka and confluentinc/cp-kafka.
COPY deploy/image/ /
RUN useradd --no-log-init --uid 10001 --home-dir /var/lib/muster --create-home muster \
 && chown -R muster:muster /etc/confluent/docker
COPY deploy/muster.toml /etc/muster.toml
ENV PATH=/opt/muster/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MUSTER_CONFIG=/etc/muster.toml
USER muster
WORKDIR /var/lib/muster
VOLUME /var/lib/muster
EXPOSE 9092 8092
STOPSIGNAL SIGTERM
# The admin port closes the connection that was silent for longest where there are too many, so a crowd keeps no check out.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --start-interval=200ms CMD ["muster-healthy"]
ENTRYPOINT ["muster-entrypoint"]
CMD ["serve"]
