from google.protobuf import descriptor_pool

from kafscale.metadata.etcd import messages


def test_requests_have_the_bytes_that_etcd_reads() -> None:
    put = messages.PutRequest(key=b"k", value=b"v", lease=5, ignore_lease=True)
    request = messages.TxnRequest(
        compare=[messages.unchanged(b"k", 300)],
        success=[messages.Operation(put=put)],
        failure=[messages.Operation(delete=messages.DeleteRequest(key=b"k"))],
    )
    assert request.SerializeToString() == bytes.fromhex(
        "0a 08"  # compare
        " 10 02"  # target: mod revision; result: equal, which is 0 and not sent
        " 1a 01 6b"  # key
        " 30 ac02"  # mod_revision 300
        " 12 0c"  # success
        " 12 0a"  # request_put
        " 0a 01 6b 12 01 76"  # key, value
        " 18 05"  # lease
        " 30 01"  # ignore_lease
        " 1a 05"  # failure
        " 1a 03 0a 01 6b"  # request_delete_range: key
    )


def test_other_etcd_libraries_may_be_loaded_beside_ours() -> None:
    shared = descriptor_pool.Default()
    assert messages.TxnRequest.DESCRIPTOR.file.pool is not shared
