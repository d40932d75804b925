"""A grant goes to the registry it is for, however its address is written, and to nobody else."""

from __future__ import annotations

import pytest
from yarl import URL

from modelio.registry import Patience, RegistryClient
from modelio.registry.transport import Transport, _same_origin


@pytest.mark.parametrize(
    "base", ["https://dmcr.svc:443", "https://dmcr.svc", "http://dmcr.svc:80", "http://dmcr.svc:5000"]
)
async def test_every_path_of_the_registry_is_of_its_origin(base: str) -> None:
    transport = Transport(base, tls=None, auth=None, patience=Patience())
    assert _same_origin(transport.resolve("/v2/"), transport.base)
    await transport.close()


@pytest.mark.parametrize("other", ["https://other.svc/x", "http://dmcr.svc/x", "https://dmcr.svc:444/x"])
async def test_another_host_scheme_or_port_is_not(other: str) -> None:
    assert not _same_origin(URL(other), URL("https://dmcr.svc:443"))


@pytest.mark.parametrize("url", ["", "dmcr:5000", "ftp://x", "https://x/prefix", "https://x/v2/"])
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address of a registry"):
        RegistryClient(url)
