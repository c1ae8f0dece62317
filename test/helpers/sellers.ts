import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { constants, createGzip } from 'node:zlib'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'

/** One request as a seller saw it. */
export interface SellerRequest {
  readonly method: string
  /** Path and query, as they came. */
  readonly target: string
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
  /** Empty for the kinds that answer without reading a body. */
  readonly body: Buffer
}

export interface Seller {
  /** `http://127.0.0.1:port`, no slash at the end. */
  readonly url: string
  readonly port: number
  /** Every request so far, in the order they came. */
  readonly requests: readonly SellerRequest[]
  /** Connections open now. */
  readonly connections: ReadonlySet<Socket>
  /** Bytes of bodies handed to the socket so far; for `endless` and `big` it shows whether back-pressure holds. */
  readonly sentBytes: number
  /** Cuts every connection and stops listening; happens by itself when the test ends. */
  close(): Promise<void>
}

/** How many zeros the gzip bomb unpacks to. On the wire it is a thousandth of that. */
export const bombBytes = 100 * 1024 * 1024
/** What `big` sends. */
export const bigBytes = 64 * 1024 * 1024
/** Pause between two bytes or events of the slow kinds. */
const dripMs = 20
const piece = Buffer.alloc(64 * 1024, 'x')

/** Kinds that speak HTTP properly. */
const proper = {
  /** 200 with a small JSON object. */
  hello: (_request, response) => json(response, 200, { hello: 'world' }),
  /** 200 with the body that came and its content type; for anything that forwards bodies. */
  echo(request, response, body) {
    response.writeHead(200, { 'content-type': request.headers['content-type'] ?? 'application/octet-stream' })
    response.end(body)
  },
  /** 200 with what came, as JSON: method, target, rawHeaders, body in latin1. */
  mirror(request, response, body) {
    const { method, url, rawHeaders } = request
    json(response, 200, { method, target: url, rawHeaders, body: body.toString('latin1') })
  },
  /** 500 with JSON. */
  'status-500': (_request, response) => json(response, 500, { error: 'broken' }),
  /** 404 with JSON. */
  'status-404': (_request, response) => json(response, 404, { error: 'no such thing' }),
  /** 402 of the seller's own, with JSON. */
  'status-402': (_request, response) => json(response, 402, { error: 'not with this account' }),
  /** 204 without a body. */
  'status-204': (_request, response) => void response.writeHead(204).end(),
  /** 302 to the address of the cloud's metadata service, which nothing may follow. */
  redirect: (_request, response) =>
    void response.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end(),
  /** 100 MiB of zeros, gzipped, with an honest Content-Encoding. */
  'gzip-bomb'(_request, response) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
    const gzip = createGzip({ level: constants.Z_BEST_COMPRESSION })
    gzip.pipe(response)
    const zeros = Buffer.alloc(1024 * 1024)
    let left = bombBytes / zeros.length
    const more = () => {
      if (response.destroyed) gzip.destroy()
      else if (left-- > 0) gzip.write(zeros, more)
      else gzip.end()
    }
    more()
  },
  /** An event stream: `data: 1`, `data: 2` … until the caller leaves. */
  sse(_request, response) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    let count = 0
    drip(response, () => response.write(`data: ${++count}\n\n`))
  },
  /** Answers with the headers a seller may not set for the buyer: cookies, payment headers, CORS, HSTS, CSP. */
  'forbidden-headers'(_request, response) {
    response.writeHead(200, {
      'set-cookie': ['session=1', 'other=2'],
      'payment-response': 'forged',
      'payment-required': 'forged',
      'x-payment-response': 'forged',
      'settlement-overrides': '{}',
      'strict-transport-security': 'max-age=1',
      'access-control-allow-origin': '*',
      'content-security-policy': "default-src 'none'",
      'content-type': 'application/json',
    })
    response.end('{}')
  },
} as const satisfies Record<
  string,
  (request: IncomingMessage, response: ServerResponse, body: Buffer) => void
>

/** Kinds that write their answer's bytes by hand. They answer once the head has come, and read no body. */
const raw = {
  /** Accepts the request and never says a word. */
  silent() {},
  /** Drips the head, one byte each 20 ms, and never ends it. */
  'slow-headers'(socket) {
    socket.write('HTTP/1.1 200 OK\r\nX-Slow: ')
    drip(socket, () => socket.write('a'))
  },
  /** Sends `103 Early Hints` for ever and never the answer itself. */
  'interim-flood': (socket) =>
    drip(socket, () => socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n')),
  /** A proper head, then one byte of a body of 1,000,000 each 20 ms. */
  'slow-body'(socket) {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n')
    drip(socket, () => socket.write('a'))
  },
  /** A proper head, the first byte, then nothing more. */
  'stalled-body': (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\na'),
  /** Resets the connection (RST) before any answer. */
  reset: (socket) => void socket.resetAndDestroy(),
  /** Disconnects (FIN) before any response. */
  'hang-up': (socket) => void socket.end(),
  /** Resets after a proper head and a part of the body. */
  'reset-mid-body'(socket) {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of', () => socket.resetAndDestroy())
  },
  /** A chunked body that ends without its last chunk. */
  truncated: (socket) =>
    void socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nhalf of\r\n'),
  /** Announces more than it sends, then disconnects. */
  'length-too-long': (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfew'),
  /** Announces 3 bytes, sends 7: the rest would be the next answer's start. */
  'length-too-short': (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntoo lot'),
  /** Two different Content-Length fields. */
  'two-lengths': (socket) =>
    void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 7\r\n\r\ntoo lot'),
  /** Content-Length and Transfer-Encoding together, which disagree (RFC 9112, section 6.3). */
  'length-and-chunked': (socket) =>
    void socket.write(
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ntoo lot\r\n0\r\n\r\n',
    ),
  /** A whole unrequested second response, behind the first: it must not be given to the next request. */
  'two-answers': (socket) =>
    void socket.write(
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok' + 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen',
    ),
  /** A chunked body without end, as fast as it is taken. */
  endless(socket, count) {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    pour(socket, Number.POSITIVE_INFINITY, count, (chunk) => {
      socket.write(`${chunk.length.toString(16)}\r\n`)
      socket.write(chunk)
      return socket.write('\r\n')
    })
  },
  /** 64 MiB with its Content-Length, as fast as it is taken. */
  big(socket, count) {
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${bigBytes}\r\n\r\n`,
    )
    pour(socket, bigBytes, count, (chunk) => socket.write(chunk))
  },
  /** A chunk whose size is not a number. */
  'bad-chunk': (socket) =>
    void socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n'),
  /** A status line of no protocol. */
  'invalid-status-line': (socket) => void socket.end('ICY 200 OK\r\nContent-Length: 2\r\n\r\nok'),
  /** A status that is no number. */
  'invalid-status': (socket) => void socket.end('HTTP/1.1 2x0 OK\r\nContent-Length: 2\r\n\r\nok'),
  /** Not HTTP at all: 64 KiB of noise. */
  noise: (socket) => void socket.end(Buffer.alloc(64 * 1024, 0xa5)),
  /** Headers without end, each a new name, as fast as they are taken. */
  'header-flood'(socket, count) {
    socket.write('HTTP/1.1 200 OK\r\n')
    let i = 0
    pour(socket, Number.POSITIVE_INFINITY, count, () =>
      socket.write(`X-Flood-${i++}: ${'f'.repeat(100)}\r\n`),
    )
  },
  /** One header of 1 MiB. */
  'header-too-large': (socket) =>
    void socket.end(`HTTP/1.1 200 OK\r\nX-Large: ${'l'.repeat(1024 * 1024)}\r\nContent-Length: 2\r\n\r\nok`),
  /** A lone CR in a value, after which a lenient parser sees a second header. */
  'header-cr': (socket) =>
    void socket.end('HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: stolen=1\r\nContent-Length: 2\r\n\r\nok'),
  /** A lone LF in a value, after which a lenient parser sees a second header. */
  'header-lf': (socket) =>
    void socket.end('HTTP/1.1 200 OK\r\nX-A: b\nSet-Cookie: stolen=1\r\nContent-Length: 2\r\n\r\nok'),
  /** A NUL in a value. */
  'header-nul': (socket) => void socket.end('HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\nok'),
  /** A space in front of the colon (RFC 9112, section 5.1). */
  'header-space': (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok'),
  /** Switches protocols without a request to do so. */
  'unasked-upgrade': (socket) =>
    void socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
    ),
} as const satisfies Record<string, (socket: Socket, count: (bytes: number) => void) => void>

export type SellerKind = keyof typeof proper | keyof typeof raw | 'websocket-echo'

/** Every kind that writes something a strict client cannot use, or never ends: for tests that walk through them all. */
export const rawKinds = Object.keys(raw) as readonly (keyof typeof raw)[]

/**
 * Starts a seller's server on a free port of 127.0.0.1 that behaves as its kind says; each kind is described beside
 * its name. `websocket-echo` sends every message back and answers plain requests with 426.
 *
 * @param host another address of this machine to listen on, such as `127.0.0.2` or `0.0.0.0`
 */
export async function startSeller(t: Test, kind: SellerKind, host = '127.0.0.1'): Promise<Seller> {
  const requests: SellerRequest[] = []
  const connections = new Set<Socket>()
  const sent = { bytes: 0 }
  const server = createSeller(kind, requests, (bytes) => (sent.bytes += bytes))
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket))
    // Callers disconnect from these servers all the time.
    socket.on('error', () => {})
  })
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function close(): Promise<void> {
    if (!server.listening) return
    server.close()
    for (const socket of connections) socket.destroy()
    await once(server, 'close')
  }
  t.teardown(close)
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    connections,
    close,
    get sentBytes() {
      return sent.bytes
    },
  }
}

/** An origin without a listener: a port that was bound and closed. */
export async function deadOrigin(): Promise<string> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

function createSeller(kind: SellerKind, requests: SellerRequest[], count: (bytes: number) => void): Server {
  if (kind === 'websocket-echo') return createWebSocketEcho(requests)
  if (kind in proper) return createProperSeller(proper[kind as keyof typeof proper], requests)
  return createRawSeller(raw[kind as keyof typeof raw], requests, count)
}

function createProperSeller(
  respond: (request: IncomingMessage, response: ServerResponse, body: Buffer) => void,
  requests: SellerRequest[],
): Server {
  return createHttpServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      requests.push(seen(request, body))
      respond(request, response, body)
    })
  })
}

function createRawSeller(
  respond: (socket: Socket, count: (bytes: number) => void) => void,
  requests: SellerRequest[],
  count: (bytes: number) => void,
): Server {
  return createTcpServer((socket) => {
    let text = ''
    let bodyBytesLeft = 0
    const read = (chunk: Buffer) => {
      const skipped = Math.min(bodyBytesLeft, chunk.length)
      bodyBytesLeft -= skipped
      text += chunk.toString('latin1', skipped)
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = parseHead(text.slice(0, end))
      const rest = text.slice(end + 4)
      const lengthAt = head.rawHeaders.findIndex((name) => name.toLowerCase() === 'content-length')
      bodyBytesLeft = lengthAt < 0 ? 0 : Math.max(0, Number(head.rawHeaders[lengthAt + 1]) - rest.length)
      text = ''
      requests.push(head)
      respond(socket, count)
    }
    socket.on('data', read)
  })
}

function createWebSocketEcho(requests: SellerRequest[]): Server {
  const server = createHttpServer((_request, response) => void response.writeHead(426).end())
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, request) => {
    requests.push(seen(request, Buffer.alloc(0)))
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
    socket.on('error', () => {})
  })
  return server
}

function seen({ method = '', url = '', rawHeaders }: IncomingMessage, body: Buffer): SellerRequest {
  return { method, target: url, rawHeaders, body }
}

function parseHead(text: string): SellerRequest {
  const [requestLine = '', ...lines] = text.split('\r\n')
  const [method = '', target = ''] = requestLine.split(' ')
  const rawHeaders = lines.flatMap((line) => [
    line.slice(0, line.indexOf(':')),
    line.slice(line.indexOf(':') + 1).trim(),
  ])
  return { method, target, rawHeaders, body: Buffer.alloc(0) }
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

/** Calls `write` again and again until the other side is gone. */
function drip(target: Socket | ServerResponse, write: () => void): void {
  const timer = setInterval(write, dripMs)
  target.on('close', () => clearInterval(timer))
}

/** Writes until `total` is reached, and waits whenever the socket is full. */
function pour(
  socket: Socket,
  total: number,
  count: (bytes: number) => void,
  write: (chunk: Buffer) => boolean,
): void {
  let left = total
  const more = () => {
    while (left > 0 && !socket.destroyed) {
      const chunk = left < piece.length ? piece.subarray(0, left) : piece
      left -= chunk.length
      count(chunk.length)
      if (!write(chunk)) return
    }
  }
  socket.on('drain', more)
  more()
}
