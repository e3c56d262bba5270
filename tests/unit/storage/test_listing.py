"""What is wrong in a location is said with its whole path."""

from __future__ import annotations

from pathlib import Path

import pytest

from acid_files import put
from hiveacid.core.write_ids import parse_write_id_list
from hiveacid.errors import BadDirectoryNameError, BadFileError, NotEnoughHistoryError
from hiveacid.storage.listing import read_location
from hiveacid.storage.local import LocalFileSystem
from shelves import definition

CREATE = "CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
WRITE_IDS = parse_write_id_list("default.t:2:9223372036854775807::")


@pytest.mark.parametrize(
    ("files", "error", "path"),
    [
        ({"base_x/bucket_00000": b"x"}, BadDirectoryNameError, "/base_x"),
        ({"base_2/_metadata_acid": b"{"}, BadFileError, "/base_2/_metadata_acid"),
        ({"base_3_v7/bucket_00000": b"x"}, NotEnoughHistoryError, ""),
    ],
)
def test_an_error_names_the_whole_path(
    files: dict[str, bytes], error: type[Exception], path: str, tmp_path: Path
) -> None:
    root = str(put(tmp_path / "t", files))
    table = definition(CREATE, root)
    with pytest.raises(error) as caught:
        read_location(LocalFileSystem(durable=False), table, root, None, WRITE_IDS, None)
    assert caught.value.path == root + path  # type: ignore[attr-defined]
    assert str(caught.value).endswith(root + path)
    assert str(caught.value).count(path or root) == 1
