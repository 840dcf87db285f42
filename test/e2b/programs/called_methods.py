"""Records which methods of the packages a program calls itself. Calls of the packages' methods by one another do not count."""

import inspect
import sys
import types

from surface import public_classes, public_methods


class CalledMethods:
    def __init__(self, program: str):
        self.names: set[str] = set()
        self._program = program
        self._codes: dict[types.CodeType, set[str]] = {}
        for cls in public_classes():
            for name, function in public_methods(cls):
                whole = inspect.unwrap(function)
                for each in (function, whole):
                    code = getattr(getattr(each, "__func__", each), "__code__", None)
                    if code:
                        self._codes.setdefault(code, set()).add(f"{cls.__name__} {name}")

    def begin(self) -> None:
        sys.setprofile(self._note)

    def _note(self, frame: types.FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code not in self._codes:
            return
        caller = frame.f_back
        while caller and caller.f_code.co_filename != self._program:
            if caller.f_code in self._codes:
                return
            caller = caller.f_back
        if caller:
            self.names.update(self._codes[frame.f_code])
