import pytest

from adapters.host import registrable_domain
from manifests import Catalog


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("push2his.eastmoney.com", "eastmoney.com"),
        ("data.stats.gov.cn", "stats.gov.cn"),
        ("vip.stock.finance.sina.com.cn", "sina.com.cn"),
        ("hq.sinajs.cn", "sinajs.cn"),
        ("xueqiu.com", "xueqiu.com"),
        ("unknown", "unknown"),
    ],
)
def test_a_limit_belongs_to_the_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_no_tool_belongs_to_a_public_suffix(catalog: Catalog) -> None:
    domains = {registrable_domain(host) for m in catalog for host in m.binding.hosts}
    assert not domains & {"com.cn", "gov.cn", "org.cn", "net.cn", "com.hk", "co.uk"}
