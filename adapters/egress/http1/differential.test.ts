import { once } from 'node:events'
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import type { UpstreamHandler, UpstreamRequest } from '../../../core/ports/egress.ts'
import { Http1Connection, Http1Exchange } from './connection.ts'

/** What a client read from the bytes of a response; null if it refused them. */
type Reading = { readonly status: number; readonly headers: readonly string[]; readonly body: string } | null

/**
 * The seller's end of a connection: what is sent is dropped, and `pieces` come, each by itself, then the end.
 *
 * @param take is lent each piece, in the place of the socket's `data`
 */
function sellerOf(pieces: readonly Buffer[], take?: (bytes: Buffer) => void): Duplex {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
  const lent = Buffer.alloc(Math.max(0, ...pieces.map(({ length }) => length)))
  void (async () => {
    for (const piece of pieces) {
      await new Promise(setImmediate)
      if (socket.destroyed) return
      if (take === undefined) socket.push(piece)
      else take(lent.subarray(0, piece.copy(lent)))
      lent.fill('x')
    }
    await new Promise(setImmediate)
    if (!socket.destroyed) socket.push(null)
  })()
  return socket
}

async function readByUs(method: string, pieces: readonly Buffer[]): Promise<Reading> {
  const { promise, resolve } = Promise.withResolvers<Reading>()
  let status = 0
  const body: Buffer[] = []
  const handler: UpstreamHandler = {
    onRequestStart() {},
    onRequestUpgrade() {},
    onResponseStart(_controller: unknown, code: number) {
      status = code
    },
    onResponseData(_controller: unknown, chunk: Buffer) {
      body.push(Buffer.from(chunk))
    },
    onResponseEnd: (controller: { rawHeaders: readonly string[] | null }) =>
      resolve({ status, headers: controller.rawHeaders ?? [], body: Buffer.concat(body).toString('latin1') }),
    onResponseError: () => resolve(null),
  } as unknown as UpstreamHandler
  const seller = sellerOf(pieces, (bytes) => connection.take(bytes))
  const connection: Http1Connection = new Http1Connection(seller as Socket, {
    hostLine: 'Host: seller.test\r\n',
    maxHeaderBytes: 16_384,
    onIdle: (idle) => idle.destroy(),
    onGone() {},
    onDeadline() {},
  })
  const asked = { method, path: '/', headers: [], body: null, headersTimeout: 0, bodyTimeout: 0 }
  connection.send(new Http1Exchange(asked as unknown as UpstreamRequest, handler))
  return promise
}

async function readByNode(method: string, pieces: readonly Buffer[]): Promise<Reading> {
  const asked = request({ method, path: '/', host: 'seller.test', createConnection: () => sellerOf(pieces) })
  asked.on('error', () => undefined)
  asked.end()
  try {
    const [response] = await once(asked, 'response')
    const body: Buffer[] = []
    for await (const chunk of response) body.push(chunk)
    if (!response.complete) return null
    return {
      status: response.statusCode,
      headers: response.rawHeaders,
      body: Buffer.concat(body).toString('latin1'),
    }
  } catch {
    return null
  } finally {
    asked.destroy()
  }
}

const oneOf = (...values: readonly string[]) => fc.constantFrom(...values)
/** Bytes that readers of HTTP have interpreted differently. */
const oddity = oneOf(
  ...[
    '\r',
    '\n',
    '\r\n',
    '\0',
    ' ',
    '\t',
    ':',
    ',',
    ';',
    '"',
    '\x0b',
    '\x7f',
    '\x80',
    '\xff',
    '0',
    '1',
    'f',
    'x',
    '+',
    '-',
  ],
  ...[
    '\r\n ',
    '\r\n\r\n',
    '\n\n',
    'chunked',
    'Content-Length: 3\r\n',
    'Transfer-Encoding: chunked\r\n',
    '0\r\n\r\n',
  ],
)
const field = fc.oneof(
  fc
    .tuple(
      oneOf('X-A', 'x-b', 'Date', 'Connection', 'Trailer'),
      oneOf('', 'a', ' b ', 'close', 'keep-alive', 'x, close', 'é'),
    )
    .map(([n, v]) => `${n}: ${v}`),
  fc
    .tuple(
      oneOf('Content-Length', 'content-length'),
      oneOf('0', '3', '5', '05', '5, 5', '+5', ' 5 ', '0x5', '99'),
    )
    .map(([n, v]) => `${n}: ${v}`),
  fc
    .tuple(
      oneOf('Transfer-Encoding', 'transfer-encoding'),
      oneOf('chunked', 'Chunked', 'identity', 'gzip, chunked', 'chunked, chunked', ' chunked'),
    )
    .map(([n, v]) => `${n}: ${v}`),
)
const body = fc.oneof(
  oneOf('', 'abc', 'abcde', 'abcdefgh'),
  fc
    .array(
      oneOf(
        '0\r\n\r\n',
        '3\r\nabc\r\n',
        '3;a=b\r\nabc\r\n',
        '03\r\nabc\r\n',
        'A\r\n0123456789\r\n',
        '3 \r\nabc\r\n',
        '0\r\nX-T: 1\r\n\r\n',
        '0;x\r\n\r\n',
      ),
      { maxLength: 4 },
    )
    .map((c) => c.join('')),
)
const statusLine = oneOf(
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200',
  'HTTP/1.0 200 OK',
  'HTTP/1.1 204 No Content',
  'HTTP/1.1 304 x',
  'HTTP/1.1 404 ',
  'HTTP/1.1 503 é',
)
const interim = oneOf('', '', '', 'HTTP/1.1 103 Early\r\nX-A: 1\r\n\r\n', 'HTTP/1.1 100\r\n\r\n')
const wellMeant = fc
  .tuple(interim, statusLine, fc.array(field, { maxLength: 4 }), body)
  .map(([early, line, fields, rest]) => `${early}${[line, ...fields].join('\r\n')}\r\n\r\n${rest}`)
const changed = fc
  .tuple(wellMeant, fc.array(fc.tuple(fc.nat(400), fc.nat(3), oddity), { maxLength: 3 }))
  .map(([text, edits]) =>
    edits.reduce((now, [at, cut, put]) => {
      const from = at % (now.length + 1)
      return now.slice(0, from) + put + now.slice(from + cut)
    }, text),
  )
const cuts = fc.array(fc.nat(400), { maxLength: 4 })

function piecesOf(text: string, at: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, 'latin1')
  const places = [...new Set(at.map((n) => n % (bytes.length + 1)))].sort((a, b) => a - b)
  return [0, ...places]
    .map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
    .filter((piece) => piece.length > 0)
}

t.test('what is taken for an answer is the same answer to node’s parser', async (t) => {
  let taken = 0
  let refused = 0
  await fc.assert(
    fc.asyncProperty(oneOf('GET', 'HEAD', 'POST'), changed, cuts, async (method, text, at) => {
      const ours = await readByUs(method, piecesOf(text, at))
      if (ours === null) {
        refused++
        return
      }
      taken++
      const theirs = await readByNode(method, piecesOf(text, []))
      if (JSON.stringify(ours) !== JSON.stringify(theirs)) {
        throw new Error(
          `ours ${JSON.stringify(ours)}, node's ${JSON.stringify(theirs)} of ${JSON.stringify(text)}`,
        )
      }
    }),
    { numRuns: Number(process.env['FUZZ_RUNS'] ?? 4_000) },
  )
  t.ok(taken > 300 && refused > 300, `${taken} answers were taken and ${refused} refused`)
})

t.test('where the bytes are cut changes nothing', async () => {
  await fc.assert(
    fc.asyncProperty(changed, cuts, async (text, at) => {
      const whole = await readByUs('GET', piecesOf(text, []))
      const cut = await readByUs('GET', piecesOf(text, at))
      if (JSON.stringify(whole) !== JSON.stringify(cut)) throw new Error(JSON.stringify({ whole, cut, text }))
    }),
    { numRuns: 1_000 },
  )
})
