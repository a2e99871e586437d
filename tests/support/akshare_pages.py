"""Small answers of upstreams of AkShare's functions beyond the catalogue, in the upstreams' forms:
JSON, pages of it, JSONP, JavaScript, HTML tables, CSV in GBK, Excel.

`CASES` says for each function what it is asked and what it makes of them; `PAGES` holds the
answers by host and path. All numbers are invented.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Asked = Mapping[str, str]
"""The query and the form of a request."""

Page = bytes | Callable[[Asked], bytes]


@dataclass(frozen=True)
class Case:
    """A call, the number of rows of its answer and its first row, in part. `columns` are those of
    the answer where AkShare's documentation has others or none.
    """

    tool: str
    arguments: Mapping[str, str]
    rows: int
    first: Mapping[str, object]
    columns: tuple[str, ...] | None = None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _table(*rows: tuple[object, ...]) -> str:
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows[1:])
    names = "".join(f"<th>{name}</th>" for name in rows[0])
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table class=m_table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def _html(*parts: str) -> bytes:
    return f"<html><meta charset=utf-8><body>{''.join(parts)}</body></html>".encode()


def _excel(*rows: tuple[object, ...]) -> bytes:
    from openpyxl import Workbook

    book, out = Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    book.save(out)
    return out.getvalue()


def _forex(asked: Asked) -> bytes:
    rows = [("USDCNH", "美元兑离岸人民币", 7.1, 0.2), ("EURUSD", "欧元兑美元", 1.08, 0.5)]
    code, name, price, change = rows[int(asked["pn"]) - 1]
    quote = {"f12": code, "f13": 133, "f14": name, "f1": 4, "f2": price, "f3": change, "f4": 0.01}
    quote |= {"f15": 7.2, "f16": 7.0, "f17": 7.05, "f18": 7.09, "f152": 2}
    return _json({"data": {"total": 2, "diff": [quote]}})


def _jin10(asked: Asked) -> bytes:
    pages: dict[str, list[list[object]]] = {
        "": [["2024-03-01", 47.8, 49.5, 49.1], ["2024-02-01", 49.1, 47.0, 47.4]],
        "2024-01-31": [["2024-01-03", 47.4, 47.1, 46.7]],
    }
    return _json({"data": {"values": pages.get(asked["max_date"], [])}})


def _crypto(_: Asked) -> bytes:
    names = ("market", "name", "last_deal_price", "updown_amount", "updown_rate", "high", "low")
    price = dict(zip(names, ("Bitfinex", "BTCUSD", 65000, 100, 0.15, 66000, 64000), strict=True))
    return _json({"data": [{**price, "amount": 12.5, "reported_at": "2024-06-14 08:00:00"}]})


def _notices(asked: Asked) -> bytes:
    assert asked["f_node"] == "1"
    assert (asked["begin_time"], asked["end_time"]) == ("20250401", "20250430")
    code = {"ann_type": "A", "inner_code": "1", "market_code": "0", "short_name": "科斯伍德"}
    notice = {
        "art_code": f"AN{asked['page_index']}",
        "codes": [{**code, "stock_code": asked["stock_list"]}],
        "columns": [{"column_code": "1", "column_name": "年度报告"}],
        "display_time": "2025-04-20 18:00:00",
        "eiTime": "2025-04-20 18:00:00",
        "notice_date": "2025-04-20 00:00:00",
        "title": "年报",
    }
    return _json({"data": {"total_hits": 101, "list": [notice]}})


def _members(asked: Asked) -> bytes:
    member = {
        "managerName": f"基金{asked['page']}",
        "memberBehalf": "某人",
        "memberType": "普通会员",
        "memberCode": "PT01",
        "memberDate": 1_700_000_000_000,
        "primaryInvestType": "私募证券投资基金",
        "markStar": None,
    }
    return _json({"totalPages": 2, "content": [member]})


def _yields(asked: Asked) -> bytes:
    assert asked["symbol"] == "US2YT"
    rows = [
        ["2024-06-13", "4.75", "4.76", "4.65", "4.70", "0"],
        ["2024-06-14", "4.70", "4.73", "4.66", "4.71", "0"],
    ]
    return _json({"result": {"data": rows}})


def _gold(asked: Asked) -> bytes:
    assert asked == {"instid": "Ag99.99"}
    return _json({"time": [["2024-06-14", 8000.0, 8010.0, 7950.0, 8020.0]]})


def _goods(asked: Asked) -> bytes:
    assert asked["symbol"] == "GP"
    day = {"opendate": "2024-06-14", "price": "3500", "zde": "10", "zdf": "0.29"}
    return _json({"result": {"data": {"data": [day]}}})


def _etf(asked: Asked) -> bytes:
    fund = {"NUM": "1", "SEC_CODE": "510050", "SEC_NAME": "50ETF", "ETF_TYPE": "单市场ETF"}
    return _json({"result": [{**fund, "STAT_DATE": asked["STAT_DATE"], "TOT_VOL": "12.5"}]})


def _funds(asked: Asked) -> bytes:
    assert (asked["txtStart"], asked["jjlb"]) == ("2026-04-01", "LOF")
    return _excel(
        ("日期", "基金代码", "基金简称", "基金规模(份)"),
        (asked["txtStart"], "160105", "南方", "1,250"),
    )


def _migration(asked: Asked) -> bytes:
    assert (asked["dt"], asked["type"]) == ("city", "move_out")
    return b"cb(" + _json({"data": {"list": {"20240101": 5.1, "20240102": 4.9}}}) + b");"


def _margin(asked: Asked) -> bytes:
    assert asked["transDate"] == "2026-07-21"
    names = ("rzmreRound", "rzyeRound", "rqmclRound", "rqylRound", "rqyeRound", "rzrqyeRound")
    total = dict(zip(names, ("1.5", "20", "0", "3", "0.1", "20.1"), strict=True))
    return f"{asked['callback']}([[{json.dumps(total)}],'2026-07-21'])".encode()


def _hong_kong(_: Asked) -> bytes:
    fields = ["HSI", "恒生指数", "18000", "17900", "18100", "17800", "17950", "50", "0.28"]
    line = ",".join([*fields, *["0"] * 10])
    return f'var hq_str_hkHSI="{line}";\n'.encode()


def _knowledge(asked: Asked) -> bytes:
    assert asked == {"entity": "股票"}
    return _json(
        {"data": {"entity": "股票", "desc": "所有权凭证", "tag": [], "avp": [["类型", "证券"]]}}
    )


def _qdii(_: Asked) -> bytes:
    numbers = ("price", "increase_rt", "volume", "amount", "amount_incr", "fund_nav", "mt_fee")
    texts = ("fund_nm", "estimate_value", "discount_rt", "index_nm", "ref_increase_rt")
    names = (*numbers, *texts, "apply_fee", "redeem_fee", "issuer_nm")
    days = {"nav_dt": "2024-06-13", "last_est_dt": "2024-06-14"}
    return _json({"rows": [{"cell": {**dict.fromkeys(names, "1"), **days, "fund_id": "513500"}}]})


PAGES: Mapping[tuple[str, str], Page] = {
    ("bond.finance.sina.com.cn", "/hq/gb/daily"): _yields,
    ("push2.eastmoney.com", "/api/qt/clist/get"): _forex,
    ("www.safe.gov.cn", "/safe/2020/1218/17833.html"): _html(
        '<a href="/safe/file.xlsx">人民币汇率中间价</a>'
    ),
    ("www.safe.gov.cn", "/safe/file.xlsx"): lambda _: _excel(
        ("日期", "美元", "欧元"), ("2024-06-13", 711.22, 769.0)
    ),
    ("www.safe.gov.cn", "/AppStructured/hlw/RMBQuery.do"): _html(
        _table(("x",), ("y",)), _table(("日期", "美元", "欧元"), ("2024-06-14", 711.51, 763.6))
    ),
    ("datacenter-web.eastmoney.com", "/api/data/v1/get"): _json(
        {
            "result": {
                "data": [["2024-06-14", 8500, 7500, -180, -170], ["2024-05-30", 8680, 7670, 0, 0]]
            }
        }
    ),
    ("datacenter-api.jin10.com", "/reports/list_v2"): _jin10,
    ("datacenter-api.jin10.com", "/crypto_currency/list"): _crypto,
    ("1.optbbs.com", "/d/csv/d/k.csv"): (
        "日期,开,高,低,收,其他\n2024/6/13,15.1,15.9,14.8,15.2,0\n2024/6/14,15.2,16,15,15.5,0\n"
    ).encode("gbk"),
    ("www.sge.com.cn", "/graph/Dailyhq"): _gold,
    ("yun.ccxe.com.cn", "/api/index/pro/cxIndexTrendInfo"): _json(
        {"data": [{"changeRate": 0.3, "value": 52.8, "date": 1_717_171_200_000}]}
    ),
    ("query.sse.com.cn", "/commonQuery.do"): _etf,
    ("www.szse.cn", "/api/report/ShowReport"): _funds,
    ("www.bse.cn", "/rzrqjyyexxController/summaryInfoResult.do"): _margin,
    ("zhibo.sina.com.cn", "/api/zhibo/feed"): _json(
        {
            "result": {
                "data": {"feed": {"list": [{"create_time": "2024-06-14", "rich_text": "快讯"}]}}
            }
        }
    ),
    ("s3.amazonaws.com", "/files.fred.stlouisfed.org/fred-md/monthly/2024-05.csv"): (
        b"sasdate,RPI,INDPRO\nTransform:,5,5\n3/1/2024,19000.1,102.5\n"
    ),
    (
        "github.com",
        "/FutureSharks/financial-data/raw/master/pyfinancialdata/data/stocks/histdata/SPXUSD/"
        "DAT_ASCII_SPXUSD_M1_2018.csv",
    ): b"20180102 180000;2685.0;2685.5;2684.5;2685.2;0\n",
    ("ets.cnemission.com", "/carbon/portalIndex/markethistory"): _html(
        _table(("x",), ("y",)),
        _table(
            ("日期", "品种", "开盘", "收盘", "最高", "最低", "涨跌", "涨跌幅", "数量", "金额"),
            ("20240614", "GDEA", 50, 51, 52, 49, 1, "2.00%", 100, 5100),
        ),
    ),
    ("www.chinamoney.com.cn", "/r/cms/www/chinamoney/data/fx/rfx-sp-quot.json"): _json(
        {
            "records": [
                {
                    "ccyPair": "USD/CNY",
                    "bidPrc": "7.11",
                    "askPrc": "7.12",
                    "midprice": "-",
                    "time": "-",
                }
            ]
        }
    ),
    (
        "stock.finance.sina.com.cn",
        "/futures/api/openapi.php/GoodsIndexService.get_goods_index",
    ): _goods,
    ("openctp.cn", "/fees.html"): _html(
        "<p>Generated at 2024-06-14 08:00:00.</p>",
        _table(("交易所", "合约代码"), ("SHFE", "rb2410")),
    ),
    ("huiyan.baidu.com", "/migration/historycurve.jsonp"): _migration,
    ("np-anotice-stock.eastmoney.com", "/api/security/ann"): _notices,
    ("gs.amac.org.cn", "/amac-infodisc/api/pof/pofMember"): _members,
    ("www.jisilu.cn", "/webapi/cb/index_history/"): _json(
        {"data": {"price_dt": ["2024-06-14"], "price": ["1980.1"]}}
    ),
    ("www.jisilu.cn", "/data/qdii/qdii_list/E"): _qdii,
    ("fund.eastmoney.com", "/Company/home/gspmlist"): _html(
        _table(
            ("序号", "基金公司", "相关链接", "成立时间", "天相评级", "规模", "基金数", "经理数"),
            (1, "易方达", "详情", "2001-04-17", "-", "18,000.5 06-14", 360, 80),
        )
    ),
    ("hq.sinajs.cn", "/rn=mtf2t&list="): _hong_kong,
    ("data.10jqka.com.cn", "/ipo/xgsgyzq/kcbsg/"): _html(
        _table(("股票代码", "股票简称"), ("688001", "华兴源创"))
    ),
    ("api.ownthink.com", "/kg/knowledge"): _knowledge,
}

OHLC = ("date", "open", "high", "low", "close")

CASES = (
    Case("bond_gb_us_sina", {"symbol": "美国2年期国债"}, 2, {"date": "2024-06-13", "close": 4.7}),
    Case("forex_spot_em", {}, 2, {"序号": 1, "代码": "EURUSD", "最新价": 1.08}),
    Case(
        "currency_boc_safe", {}, 2, {"日期": "2024-06-13", "美元": 711.22}, ("日期", "美元", "欧元")
    ),
    Case(
        "energy_oil_hist",
        {},
        2,
        {"调整日期": "2024-05-30", "汽油价格": 8680},
        ("调整日期", "汽油价格", "柴油价格", "汽油涨跌", "柴油涨跌"),
    ),
    Case("macro_usa_ism_pmi", {}, 3, {"日期": "2024-01-03", "今值": 47.4}),
    Case("crypto_js_spot", {}, 1, {"市场": "Bitfinex", "最近报价": 65000}),
    Case("index_option_50etf_qvix", {}, 2, {"date": "2024-06-13", "high": 15.9}),
    Case("spot_hist_sge", {"symbol": "Ag99.99"}, 1, {"date": "2024-06-14", "close": 8010}),
    Case("index_pmi_com_cx", {}, 1, {"日期": "2024-06-01", "综合PMI": 52.8}),
    Case(
        "fund_etf_scale_sse", {"date": "2024-06-14"}, 1, {"基金代码": "510050", "基金份额": 125000}
    ),
    Case(
        "fund_scale_daily_szse",
        {"start_date": "2026-04-01", "end_date": "2026-04-02", "symbol": "LOF"},
        1,
        {"日期": "2026-04-01", "基金代码": "160105", "基金份额": 1250},
    ),
    Case("stock_margin_bse", {"date": "2026-07-21"}, 1, {"融资余额": 20}),
    Case("stock_info_global_sina", {}, 1, {"内容": "快讯"}),
    Case(
        "fred_md", {"date": "2024-05"}, 2, {"sasdate": "Transform:"}, ("sasdate", "RPI", "INDPRO")
    ),
    Case(
        "hf_sp_500", {"year": "2018"}, 1, {"date": "2018-01-02", "close": 2685.2}, (*OHLC, "price")
    ),
    Case("energy_carbon_gz", {}, 1, {"日期": "2024-06-14", "涨跌幅": 2}),
    Case(
        "fx_spot_quote",
        {},
        1,
        {"货币对": "USD/CNY", "卖报价": 7.12},
        ("货币对", "买报价", "卖报价"),
    ),
    Case("spot_goods", {"symbol": "钢坯价格指数"}, 1, {"日期": "2024-06-14", "指数": 3500}),
    Case("futures_fees_info", {}, 1, {"合约代码": "rb2410"}, ("交易所", "合约代码", "更新时间")),
    Case(
        "migration_scale_baidu",
        {"area": "广州市", "indicator": "move_out"},
        2,
        {"日期": "2024-01-01", "迁徙规模指数": 5.1},
    ),
    Case(
        "stock_individual_notice_report",
        {
            "security": "300192.SZ",
            "symbol": "财务报告",
            "begin_date": "2025-04-01",
            "end_date": "2025-04-30",
        },
        2,
        {"代码": "300192", "公告类型": "年度报告"},
    ),
    Case("amac_member_info", {}, 2, {"机构（会员）名称": "基金0", "入会时间": "2023-11-14"}),
    Case("bond_cb_index_jsl", {}, 1, {"price": "1980.1"}, ("price_dt", "price")),
    Case("qdii_e_index_jsl", {}, 1, {"代码": "513500", "净值日期": "2024-06-13"}),
    Case(
        "fund_aum_em", {}, 1, {"基金公司": "易方达", "全部管理规模": 18000.5, "更新日期": "06-14"}
    ),
    Case("stock_hk_index_spot_sina", {}, 1, {"代码": "HSI", "最新价": 17950}),
    Case(
        "stock_ipo_ths", {"symbol": "科创板"}, 1, {"股票代码": "688001"}, ("股票代码", "股票简称")
    ),
    Case("nlp_ownthink", {"word": "股票", "indicator": "avp"}, 1, {"值": "证券"}, ("字段", "值")),
)


def answer(host: str, path: str, asked: dict[str, Any]) -> bytes | None:
    """The answer of that host; None if it has no such page."""
    found = next(
        (p for (h, start), p in PAGES.items() if h == host and path.startswith(start)), None
    )
    return found(asked) if callable(found) else found
