"""Tables made from a manifest's columns, for AkShare tools whose upstream is not simulated.

The name of a column decides its values; if the name says nothing, its type does.
"""

from collections.abc import Mapping
from datetime import timedelta

from adapters.simulator.shapes import Luck
from manifests import Column, Manifest

ROWS = 20

_NAMES = ["Alpha", "Borealis", "Cygnus", "Dorado", "Eridanus", "Fornax", "Grus", "Hydra"]

_KINDS = {
    "date": "日期 时间 date time 月份 季度 年度 报告期 年份",
    "percent": "% 率 幅 占比 比例 percent 收益 yield",
    "code": "代码 code symbol 合约 编号",
    "name": "名称 name 简称 机构 行业 板块 公司 股东 品种 地区 类型",
    "count": "序号 数量 家数 volume 成交量 持仓 排名 次数 count",
    "amount": "额 市值 资产 收入 利润 规模 amount value",
    "price": "价 开盘 收盘 最高 最低 均线 净值 price open close 指数",
    "text": "标题 内容 说明 链接 url 备注 摘要 item",
}
"""The kind of values in a column, by words in its name; the first match wins."""

NOT_YET = "not yet"

_WHY = {
    "the pages are HTML": "basic.10jqka.com.cn fundf10.eastmoney.com vip.stock.finance.sina.com.cn "
    "money.finance.sina.com.cn www.dce.com.cn www.100ppi.com www.9qihuo.com www.gtjaqh.com "
    "www.etnet.com.hk www.jisilu.cn stats.areppim.com cn.investing.com infogram.com "
    "sns.sseinfo.com fund.eastmoney.com",
    "the site wants a token from its own pages": "data.10jqka.com.cn q.10jqka.com.cn "
    "d.10jqka.com.cn fund.10jqka.com.cn legulegu.com www.legulegu.com xueqiu.com "
    "stock.xueqiu.com",
    "the files are Excel": "www.szse.cn www.czce.com.cn www.cnindex.com.cn oss-ch.csindex.com.cn",
    "the market has no texts": "irm.cninfo.com.cn www.cninfo.com.cn reportapi.eastmoney.com "
    "www.shmet.com",
    "the market has no ranks of what people look at": "emappdata.eastmoney.com "
    "finance.pae.baidu.com gushitong.baidu.com danjuanfunds.com",
    "the catalogue knows no host": "unknown",
    "the current AkShare has no such function": "qhkch.com",
}
WHY: Mapping[str, str] = {host: why for why, hosts in _WHY.items() for host in hosts.split()}
"""Why a host is not simulated, or why the rest of its tools are not; `NOT_YET` for all others."""


def table(manifest: Manifest, arguments: Mapping[str, str], rng: Luck) -> list[dict[str, object]]:
    """Make records with the manifest's columns; a requested `symbol` is in each record."""
    columns = manifest.columns or (Column(name="item"), Column(name="value", type="number"))
    kinds = [(column.name, _kind(column)) for column in columns]
    asked = arguments.get("symbol")
    return [
        {
            name: asked if asked and kind == "code" else _value(kind, row, rng)
            for name, kind in kinds
        }
        for row in range(ROWS)
    ]


def _kind(column: Column) -> str:
    name = column.name.lower()
    for kind, words in _KINDS.items():
        if any(word in name for word in words.split()):
            return kind
    return {"integer": "count", "string": "text"}.get(column.type or "", "price")


def _value(kind: str, row: int, rng: Luck) -> object:
    match kind:
        case "date":
            return (rng.world.now - timedelta(days=ROWS - 1 - row)).isoformat()
        case "percent":
            return round(rng.gauss(0, 2.5), 2)
        case "code":
            return f"{rng.randrange(600000, 605000)}"
        case "name":
            return _NAMES[row % len(_NAMES)]
        case "count":
            return rng.randrange(1, 100_000)
        case "amount":
            return round(rng.lognormvariate(18, 1.5), 2)
        case "text":
            return f"simulated {row + 1}"
        case _:
            return round(rng.lognormvariate(3, 0.6), 2)
