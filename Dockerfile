# Two stages: wheels are built in the first, the second holds Python, Muster and nothing to build with.
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY coordinator ./coordinator
COPY protocol ./protocol
COPY storage ./storage
COPY pipeline ./pipeline
RUN python3 -m venv /opt/muster \
 && /opt/muster/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/muster/bin/pip uninstall --yes pip setuptools \
 && find /opt/muster -name __pycache__ -prune -exec rm -rf {} + \
 && /opt/muster/bin/python -m compileall -q /opt/muster/lib

FROM ${PYTHON}
LABEL org.opencontainers.image.title="muster" \
      org.opencontainers.image.description="A standalone Kafka group coordinator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/muster /opt/muster
RUN useradd --no-log-init --uid 10001 --home-dir /var/lib/muster --create-home muster
COPY deploy/muster.toml /etc/muster.toml
ENV PATH=/opt/muster/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MUSTER_CONFIG=/etc/muster.toml
USER muster
WORKDIR /var/lib/muster
VOLUME /var/lib/muster
EXPOSE 9092 8092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=2s --timeout=3s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8092/readyz', timeout=2)"]
ENTRYPOINT ["muster"]
CMD ["serve"]
