// link: storage/base storage/s3 storage/system
/* s3_xml: documents of S3 are read, everything else is refused; what is written is read back. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/s3/s3_xml.h"

static int parse(const char *text, struct pl_s3_xml **ret, struct pl_err *err)
{
    return pl_s3_xml_parse(text, strlen(text), ret, err);
}

static void a_list_is_read(void **state)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    const struct pl_s3_xml_node *root, *c;
    struct pl_err err;

    (void)state;
    assert_ok(parse("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<s3:ListBucketResult xmlns:s3=\"http://s3.amazonaws.com/doc/2006-03-01/\" more=\"x\">\n"
                    "  <!-- of no interest --><IsTruncated>false</IsTruncated>\n"
                    "  <Contents><Key>a&amp;b&#x20;<![CDATA[<c>]]></Key><Size>1</Size></Contents>\n"
                    "  <Prefix/>\n"
                    "  <s3:Contents><Key>  \xc3\xa9 </Key></s3:Contents>\n"
                    "</s3:ListBucketResult>\n",
                    &x, &err),
              &err);
    root = pl_s3_xml_root(x);
    assert_string_equal(root->name, "ListBucketResult");
    assert_string_equal(pl_s3_xml_text(root, "IsTruncated"), "false");
    assert_string_equal(pl_s3_xml_text(root, "Prefix"), "");
    assert_null(pl_s3_xml_text(root, "Key"));
    c = pl_s3_xml_child(root, "Contents");
    assert_string_equal(pl_s3_xml_text(c, "Key"), "a&b <c>");
    assert_string_equal(pl_s3_xml_text(c, "Size"), "1");
    c = pl_s3_xml_again(c);
    assert_string_equal(pl_s3_xml_text(c, "Key"), "  \xc3\xa9 ");
    assert_null(pl_s3_xml_again(c));
    assert_null(pl_s3_xml_child(NULL, "Key"));
}

static void what_is_no_such_document_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "no xml",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a>text<b/></a>",
        "<a><b/>text</a>",
        "<a>&undefined;</a>",
        "<a>\x01</a>",
        "<a>\xff</a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>",
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xe9</a>",
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        struct pl_s3_xml *x = NULL;
        struct pl_err err = {0};

        if (parse(bad[i], &x, &err) != PL_EPROTO)
            fail_msg("%s", bad[i]);
        assert_null(x);
        assert_non_null(strstr(err.msg, "line "));
    }
    assert_int_equal(pl_s3_xml_parse("\xfe\xff\0<\0a\0/\0>", 10, &(struct pl_s3_xml *){NULL}, NULL), PL_EPROTO);
    assert_int_equal(pl_s3_xml_parse("<a>\0</a>", 8, &(struct pl_s3_xml *){NULL}, NULL), PL_EPROTO);
}

/* `n` times `part` between `before` and `after`. */
static int parse_repeated(const char *before, const char *part, size_t n, const char *after, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};

    assert_int_equal(pl_buf_add_str(&text, before, NULL), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pl_buf_add_str(&text, part, NULL), 0);
    assert_int_equal(pl_buf_add_str(&text, after, NULL), 0);
    return pl_s3_xml_parse(text.data, text.len, &x, err);
}

static void bounds_hold(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(parse_repeated("<a>", "<b/>", PL_S3_XML_NODES_MAX - 1, "</a>", &err), &err);
    assert_int_equal(parse_repeated("<a>", "<b/>", PL_S3_XML_NODES_MAX, "</a>", &err), PL_ETOOBIG);
    assert_int_equal(parse_repeated("", "<a>", PL_S3_XML_DEPTH_MAX, "", &err), PL_EPROTO); /* no end, but not too deep */
    assert_int_equal(parse_repeated("", "<a>", PL_S3_XML_DEPTH_MAX + 1, "", &err), PL_ETOOBIG);
    assert_ok(parse_repeated("<a>", "0123456789", 100000, "</a>", &err), &err);
    assert_int_equal(parse_repeated("<a>", "0123456789", PL_S3_XML_BYTES_MAX / 10, "</a>", &err), PL_ETOOBIG);
}

static void what_is_written_is_read_back(void **state)
{
    static const struct {
        const char *text, *back;
    } cases[] = {{"plain", "plain"},
                 {"", ""},
                 {"<&>\"'", "<&>\"'"},
                 {"a\r\nb\tc", "a\r\nb\tc"},
                 {"\xc3\xa9\xf0\x9f\x98\x80", "\xc3\xa9\xf0\x9f\x98\x80"},
                 {"a\x01\x1f", "a??"},
                 {"a\xff"
                  "b",
                  "a?b"},
                 {"\xef\xbf\xbf.\xef\xbf\xbe", "?.?"},
                 {"]]>", "]]>"}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *x = NULL;
        _cleanup_(pl_buf_finish) struct pl_buf out = {0};
        struct pl_err err;

        assert_ok(pl_s3_xml_begin(&out, "Error", i % 2 == 0, &err), &err);
        assert_ok(pl_s3_xml_open(&out, "In", &err), &err);
        assert_ok(pl_s3_xml_add(&out, "Key", cases[i].text, &err), &err);
        assert_ok(pl_s3_xml_add_u64(&out, "Size", UINT64_MAX, &err), &err);
        assert_ok(pl_s3_xml_close(&out, "In", &err), &err);
        assert_ok(pl_s3_xml_close(&out, "Error", &err), &err);
        assert_ok(pl_s3_xml_parse(out.data, out.len, &x, &err), &err);
        assert_string_equal(pl_s3_xml_text(pl_s3_xml_child(pl_s3_xml_root(x), "In"), "Key"), cases[i].back);
        assert_string_equal(pl_s3_xml_text(pl_s3_xml_child(pl_s3_xml_root(x), "In"), "Size"), "18446744073709551615");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read),
        cmocka_unit_test(what_is_no_such_document_is_refused),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(what_is_written_is_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
