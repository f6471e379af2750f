"""The system user that commands run as (``dispatcher.command.user``).

The setting protects the store only if that user can neither read nor replace it. A server does not start otherwise.
"""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from chronos.assembly import parse_sqlite_file
from chronos.errors import Invalid
from chronos.runners.command.options import find_user
from chronos.server.config import Config

SETTING = "dispatcher.command.user"
_SQLITE_FILES = ("", "-wal", "-shm")
_SECRETS = ("auth.users", "auth.tokens", "store")
_READ, _WRITE, _ENTER = 4, 2, 1


def check_user(config: Config, name: str) -> None:
    """Raise ``Invalid`` unless commands can run as this user and it can neither read nor replace the store's files."""
    user = _SystemUser.of(find_user(SETTING, name))
    if user.uid == 0:
        raise Invalid(f'{SETTING} is "{name}", which is root; name a user without privileges')
    for path in _store_files(config):
        if user.can_read(path):
            raise Invalid(f'{path} can be read by "{name}" ({SETTING}); chmod 600 {path}, or name another user')
        if user.can_replace(path):
            raise Invalid(f'{path} can be replaced by "{name}" ({SETTING}); chmod 700 {path.parent}')


def command_warnings(config: Config) -> tuple[str, ...]:
    """Return warnings about the user that commands run as. Raises ``Invalid`` if the user does not exist."""
    name = config[SETTING]
    if name is None:
        return ()
    try:
        user = _SystemUser.of(pwd.getpwnam(name))
    except KeyError:
        raise Invalid(f'{SETTING} is "{name}", but this machine has no such user; create it, or name another') from None
    warnings: list[str] = []
    if os.geteuid() != 0:
        warnings.append(f"{SETTING} needs a server that runs as root; started by the current user, it would not start")
    files = sorted({config.origins[setting] for setting in _SECRETS} - {"default"})
    problem = f'holds credentials and can be read by "{name}" ({SETTING}); chmod 600'
    warnings += [f"{file} {problem} {file}" for file in files if user.can_read(Path(file))]
    return tuple(warnings)


def _store_files(config: Config) -> list[Path]:
    data = parse_sqlite_file(config["store"])
    if data is None:
        return []
    files = [data.with_name(data.name + ending).absolute() for ending in _SQLITE_FILES]
    return [path for path in files if path.exists()]


@dataclass(frozen=True, slots=True)
class _SystemUser:
    """A user with its groups, for checks of file permissions."""

    uid: int
    groups: frozenset[int]

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> "_SystemUser":
        return cls(entry.pw_uid, frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid)))

    def can_read(self, path: Path) -> bool:
        """Whether the user may read a file. False if the file does not exist."""
        return self._has_permission(path, _READ) and self._can_enter_parents(path)

    def can_replace(self, path: Path) -> bool:
        """Whether the user may replace a file that belongs to another user."""
        folder = path.parent
        sticky = bool(folder.stat().st_mode & stat.S_ISVTX) and folder.stat().st_uid != self.uid
        return self._has_permission(folder, _WRITE) and not sticky and self._can_enter_parents(path)

    def _can_enter_parents(self, path: Path) -> bool:
        return all(self._has_permission(folder, _ENTER) for folder in path.absolute().parents)

    def _has_permission(self, path: Path, bits: int) -> bool:
        try:
            info = path.stat()
        except OSError:
            return False
        shift = 6 if info.st_uid == self.uid else 3 if info.st_gid in self.groups else 0
        return info.st_mode >> shift & bits == bits
