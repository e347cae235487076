"""The options of `muster serve`, from the command line and the file, checked. Not a subcommand."""

import argparse
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.cli import STARTED
from coordinator.cli.fast import hasten
from coordinator.cli.listeners import MAP, Endpoint, Endpoints, OptionWords, check_ports, read_endpoints, read_protocols
from coordinator.cli.parser import list_choices, suggest
from coordinator.cli.settings import Origin, Settings, read_settings
from coordinator.config import Config, find_setting
from coordinator.core.catalog.names import reason_invalid
from coordinator.runtime.router import COMPAT
from coordinator.server.listener import address
from coordinator.setting import ConfigError, Value

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
BROKERS: Final = "virtual.brokers"


class Options(Struct, frozen=True):
    """The options of `muster serve`: addresses, data and settings."""

    config: Config
    ignored: Mapping[str, str]  # settings of Kafka that have no effect, with their sources
    suspects: Mapping[str, str]  # variables that are no setting, with the one that is nearly the same
    endpoints: tuple[Endpoint, ...]  # where clients connect
    controllers: tuple[str, ...]  # listeners of a controller, which are not bound
    admin: str | None
    data_dir: str | None  # None: keep nothing
    fsync: bool
    topics: Mapping[str, int]
    ready_file: str | None
    compat: str
    oauth_dev: bool
    admin_token_file: str | None
    seed: int | None
    exits_with_stdin: bool
    beside: tuple[str, ...]  # the command that runs beside the server, and ends it; () for none
    log_level: str
    log_format: str
    started: float  # by time.monotonic()


def read_options(args: argparse.Namespace) -> Options:
    """Read the command line over the file over the defaults. Raises ConfigError."""
    from_file = read_settings(args)
    beside = _read_command(args)
    if beside:
        from_file = _with_free_ports(args, from_file)

    def choose(name: str, default: Any) -> Any:
        value = getattr(args, name.replace("-", "_"))
        return from_file.options.get(name, default) if value is None else value

    def origin(name: str) -> Origin:
        is_given = getattr(args, name.replace("-", "_")) is not None
        return Origin(f"--{name}") if is_given else Origin(name, from_file.sources.get(name, ""))

    if args.data_dir is not None and args.ephemeral is None:
        ephemeral = False
    else:
        ephemeral = choose("ephemeral", bool(beside) and "data-dir" not in from_file.options)
    admin = choose("admin", "127.0.0.1:0" if beside else "127.0.0.1:8092")
    if admin != "off":
        _check_address(origin("admin"), admin)
        if choose("admin-token-file", None) is None and not choose("admin-public", False):
            _check_loopback(origin("admin"), admin)
    data_dir = choose("data-dir", "muster-data")
    if not data_dir:
        raise origin("data-dir").complaint(data_dir, "a directory")
    endpoints = _read_endpoints(args, from_file)
    config = _with_brokers(from_file.config, choose("brokers", None), origin("brokers"))
    if choose("fast", ephemeral):
        config = hasten(config)
    check_ports(endpoints.brokers, config[BROKERS], _brokers_origin(config, origin("brokers")))
    return Options(
        config=config,
        ignored=from_file.ignored,
        suspects=from_file.suspects,
        endpoints=endpoints.brokers,
        controllers=endpoints.controllers,
        admin=None if admin == "off" else admin,
        data_dir=None if ephemeral else data_dir,
        fsync=choose("fsync", False),
        topics=_read_topics(choose("topic", []), origin("topic")),
        ready_file=choose("ready-file", None),
        compat=_check_choice(choose("compat", COMPAT[0]), origin("compat"), COMPAT),
        admin_token_file=choose("admin-token-file", None),
        oauth_dev=choose("oauth-dev", False),
        seed=choose("seed", None),
        exits_with_stdin=choose("exit-with-stdin", False),
        beside=beside,
        log_level=_check_choice(choose("log-level", "warning" if beside else "info"), origin("log-level"), LOG_LEVELS),
        log_format=_check_choice(choose("log-format", "text"), origin("log-format"), LOG_FORMATS),
        started=STARTED,
    )


def _read_command(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the words of the command beside the server. Raises ConfigError for `--` without any."""
    words = getattr(args, "beside", None)
    if words is not None and not words:
        raise ConfigError("invalid --: expected a command behind it")
    return tuple(words or ())


def _with_free_ports(args: argparse.Namespace, settings: Settings) -> Settings:
    """Return the settings for a server with a command beside it: a free port, and a journal, where nothing is said."""
    from coordinator.cli.beside import JOURNAL_BYTES, SOURCE

    defaults: dict[str, Value] = {"journal.max.bytes": JOURNAL_BYTES}
    if args.listen is None and "listen" not in settings.options:
        defaults["listeners"] = ("PLAINTEXT://127.0.0.1:0",)
    return replace(settings, config=settings.config.preset(defaults, SOURCE))


def _with_brokers(config: Config, count: int | None, origin: Origin) -> Config:
    """Return the configuration with the option's number of brokers, if it is given. Raises ConfigError."""
    if count is None:
        return config
    setting = find_setting(BROKERS)
    try:
        setting.check(count)
    except ConfigError:
        raise origin.complaint(count, setting.may_be) from None
    return config.override({BROKERS: count})


def _brokers_origin(config: Config, option: Origin) -> Origin:
    """Return where the number of brokers comes from: the setting, or the option that goes before it."""
    source = config.source(BROKERS)
    return Origin(BROKERS, source) if source else option


def _read_endpoints(args: argparse.Namespace, settings: Settings) -> Endpoints:
    """Read the listeners: of the command line, of Kafka's settings, of the file's options, in this order."""
    config = settings.config
    listen = _find_option_words(args, settings, "listen", "listeners")
    advertise = _find_option_words(args, settings, "advertise", "advertised.listeners")
    if listen.origin.name == "listeners" and advertise.origin.name == "advertise":
        advertise = OptionWords(
            (), advertise.origin
        )  # the file has it for its own listeners, not for the environment's
    protocols = read_protocols(OptionWords(config[MAP], Origin(MAP, config.source(MAP))))
    return read_endpoints(listen, advertise, protocols, config["controller.listener.names"])


def _find_option_words(args: argparse.Namespace, settings: Settings, option: str, setting: str) -> OptionWords:
    config = settings.config
    if (words := getattr(args, option)) is not None:
        return OptionWords(tuple(words), Origin(f"--{option}"))
    if config.is_set(setting):
        return OptionWords(config[setting], Origin(setting, config.source(setting)))
    if option in settings.options:
        return OptionWords(tuple(settings.options[option]), Origin(option, settings.sources[option]))
    return OptionWords(config[setting], Origin(setting))


def _check_address(origin: Origin, text: str) -> None:
    try:
        address(text)
    except ValueError as error:
        raise origin.complaint(text, f"HOST:PORT{_reason(str(error))}") from None


def _check_loopback(origin: Origin, text: str) -> None:
    """Refuse to let strangers steer the server unless that is meant."""
    host, _ = address(text)
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        ways = "--admin-token-file FILE, or --admin-public to let everybody in"
        raise origin.complaint(text, f"an address of this machine's loopback, or {ways}")


def _reason(complaint: str) -> str:
    """Return the part of a listener's complaint beyond `'x' is not HOST:PORT`."""
    _, _, reason = complaint.partition(": ")
    return f"; {reason}" if reason else ""


def _check_choice(text: str, origin: Origin, choices: Sequence[str]) -> str:
    for choice in choices:
        if text.lower() == choice.lower():  # as on the command line
            return choice
    raise origin.complaint(text, list_choices(choices) + suggest(text, choices))


def _read_topics(texts: Iterable[str], origin: Origin) -> dict[str, int]:
    """Return how many partitions each topic has. Raises ConfigError, also for a topic with two numbers."""
    topics: dict[str, int] = {}
    for text in texts:
        name, partitions = _parse_topic(text, origin)
        if topics.setdefault(name, partitions) != partitions:
            raise origin.complaint(text, f"one number of partitions for {name}, which has {topics[name]} already")
    return topics


def _parse_topic(text: str, origin: Origin) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon or not (partitions.isascii() and partitions.isdecimal() and len(partitions) < 6):
        partitions = "0"
    if not 1 <= int(partitions) <= 10_000:
        raise origin.complaint(text, "NAME:PARTITIONS with 1 to 10000 partitions")
    if reason_invalid(name):
        raise origin.complaint(text, "a name of 1 to 249 letters, digits, '.', '_' and '-', other than '.' and '..'")
    return name, int(partitions)
