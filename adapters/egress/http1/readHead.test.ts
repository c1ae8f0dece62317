import t from 'tap'
import { chunked, readHead, untilClose } from './readHead.ts'

const head = (...fields: string[]) => ['HTTP/1.1 200 OK', ...fields].join('\r\n')

t.test('a head is read as it came, white space around values aside', async (t) => {
  const read = readHead(
    head('Content-Type: text/plain', 'x-a:  b\t', 'X-Empty:', 'Content-Length: 12'),
    false,
  )
  t.strictSame(read.rawHeaders, [
    ...['Content-Type', 'text/plain', 'x-a', 'b', 'X-Empty', ''],
    ...['Content-Length', '12'],
  ])
  t.match(read, { status: 200, length: 12, isKept: true })
  t.equal(readHead('HTTP/1.1 404', false).status, 404, 'a reason is optional')
})

t.test('the length of a body follows RFC 9112, section 6.3', async (t) => {
  t.equal(readHead(head('Transfer-Encoding: Chunked'), false).length, chunked)
  t.equal(readHead(head(), false).length, untilClose)
  t.equal(readHead(head('Content-Length: 5'), true).length, 0, 'the answer to HEAD has none')
  for (const status of [103, 204, 304]) {
    t.equal(readHead(`HTTP/1.1 ${status} x\r\nContent-Length: 5`, false).length, 0, `${status}`)
  }
})

t.test('a connection is kept only when its next answer can be told from this one', async (t) => {
  t.equal(readHead(head(), false).isKept, false, 'the end of the connection ends the body')
  t.equal(readHead(head('Connection: Close', 'Content-Length: 0'), false).isKept, false)
  t.equal(readHead(head('Connection: x, close', 'Content-Length: 0'), false).isKept, false)
  t.equal(readHead('HTTP/1.0 200 OK\r\nContent-Length: 0', false).isKept, false)
})

t.test('what two readers could understand differently is refused', async (t) => {
  const bad = [
    '',
    'ICY 200 OK',
    'HTTP/1.1 2x0 OK',
    'HTTP/2.0 200 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.0 103 Early Hints',
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked',
    head('no colon'),
    head(': no name'),
    head('space : before'),
    head('X-A: b', ' folded'),
    head('X-A: b\rSet-Cookie: c'),
    head('X-A: b\nSet-Cookie: c'),
    head('X-A: b\0c'),
    head('X-\xe4: b'),
    head('Content-Length: 1', 'Content-Length: 1'),
    head('Content-Length: 1', 'Transfer-Encoding: chunked'),
    head('Transfer-Encoding: chunked', 'Content-Length: 1'),
    head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
    head('Transfer-Encoding: gzip, chunked'),
    ...['-1', '+1', '1, 1', '0x1', '1e3', '', '1234567890123456'].map((n) => head(`Content-Length: ${n}`)),
  ]
  for (const text of bad) t.throws(() => readHead(text, false), { code: 'EGRESS_BAD_ANSWER' }, text)
})
