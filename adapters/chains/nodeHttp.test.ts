import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { NotAnswered } from '../../core/rpc/post.ts'
import { requestByFetch } from '../../core/rpc/requestByFetch.ts'
import { selfSignedCertificate } from '../../test/helpers/servers/selfSignedCertificate.ts'
import { callNode } from './nodeHttp.ts'

async function listening(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

const start = async (t: Test, respond: RequestListener) =>
  `http://127.0.0.1:${await listening(t, createServer(respond))}/v1/secret-key?token=secret-token`

/** A peer that sends the test's bytes. */
async function startPeer(t: Test, speak: (socket: Socket) => void): Promise<string> {
  const peers = new Set<Socket>()
  const server = createTcpServer((socket) => {
    peers.add(socket)
    socket.on('error', () => {})
    speak(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const peer of peers) peer.destroy()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret-key`
}

const request = { body: '{"id":1}', maxResponseBytes: 1_000, timeoutMs: 5_000 }
const failure = (url: string, more: object = {}) =>
  callNode({ url, ...request, ...more }).then(
    () => 'an answer',
    (error: NotAnswered) => error,
  )

t.test('a request is JSON by POST, whole, and connections are used again', async (t) => {
  const ports = new Set<number>()
  const url = await start(t, async (request, response) => {
    ports.add(request.socket.remotePort!)
    let body = ''
    for await (const chunk of request) body += chunk
    const { method, url, headers } = request
    response.end(JSON.stringify({ method, url, body, type: headers['content-type'], host: headers.host }))
  })
  for (let n = 0; n < 5; n++) {
    const { status, text } = await callNode({ ...request, url, body: '{"ä":"✓"}' })
    t.equal(status, 200)
    t.same(JSON.parse(text), {
      method: 'POST',
      url: '/v1/secret-key?token=secret-token',
      body: '{"ä":"✓"}',
      type: 'application/json',
      host: new URL(url).host,
    })
  }
  t.equal(ports.size, 1)
})

for (const [how, send] of [
  ['', callNode],
  [', also by fetch', requestByFetch(fetch)],
] as const) {
  t.test(
    `a name and a password in the URL are sent as Basic authorization, their escapes undone${how}`,
    async (t) => {
      const url = await start(t, ({ headers }, response) => void response.end(headers.authorization))
      const named = url.replace('http://', 'http://us%40er:p%3Ass@')
      const { text } = await send({ ...request, url: named })
      t.equal(Buffer.from(text.slice('Basic '.length), 'base64').toString(), 'us@er:p:ss')
      t.equal((await send({ ...request, url })).text, '')
      const bad = await send({ ...request, url: 'http://secret-user:secret-%@127.0.0.1:9/' }).catch(String)
      t.notMatch(bad, /secret/)
    },
  )
}

t.test('every status is an answer but a redirect, which is not followed', async (t) => {
  const url = await start(t, (_asked, response) => void response.writeHead(503).end('busy'))
  t.same(await callNode({ ...request, url }), { status: 503, text: 'busy' })
  for (const status of [301, 302, 303, 307, 308]) {
    const moved = await start(
      t,
      (_asked, response) => void response.writeHead(status, { location: url }).end(),
    )
    t.match(await failure(moved), { kind: 'failed', message: 'unexpected redirect' })
  }
})

t.test('an answer in chunks is read as one, and one that is too long is not', async (t) => {
  const url = await start(t, ({ url }, response) => {
    for (let n = 0; n < 10; n++) response.write('ä'.repeat(url!.includes('long') ? 51 : 50))
    response.end()
  })
  t.same(await callNode({ ...request, url }), { status: 200, text: 'ä'.repeat(500) })
  t.match(await failure(`${url}&long`), { kind: 'long', message: 'it returned more than 1000 bytes' })
  t.same((await callNode({ ...request, url })).status, 200, 'and what follows is answered')
})

t.test('a node that keeps silent, or drips, is given up after the limit, by its caller before', async (t) => {
  const silent = await start(t, () => {})
  const dripping = await start(t, (_asked, response) => {
    const timer = setInterval(() => response.write(' '), 5)
    response.on('close', () => clearInterval(timer))
  })
  for (const url of [silent, dripping]) {
    t.match(await failure(url, { timeoutMs: 50 }), { kind: 'late', message: 'no response in time' })
    t.match(await failure(url, { signal: AbortSignal.timeout(50) }), { kind: 'failed' })
    t.match(await failure(url, { signal: AbortSignal.abort() }), { kind: 'failed' })
  }
})

t.test('a connection that ends before the answer is whole is told from one that never was', async (t) => {
  const ways: Record<string, (socket: Socket) => void> = {
    'at once': (socket) => socket.destroy(),
    'by a reset': (socket) => socket.once('data', () => socket.resetAndDestroy()),
    'after the request': (socket) => socket.once('data', () => socket.end()),
    'within the answer': (socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{')),
  }
  for (const [how, speak] of Object.entries(ways))
    t.match(await failure(await startPeer(t, speak)), { kind: 'broken', message: 'ECONNRESET' }, how)
  t.match(await failure('http://127.0.0.1:9/secret-key'), { kind: 'failed', message: 'ECONNREFUSED' })
  const garbage = await startPeer(t, (socket) => socket.once('data', () => socket.end('secret\r\n\r\n')))
  t.match(await failure(garbage), { kind: 'failed', message: 'its response is not well-formed HTTP' })
})

t.test('a kept connection that the node closes is not used again', async (t) => {
  let connections = 0
  const url = await startPeer(t, (socket) => {
    connections++
    socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
  })
  for (let n = 0; n < 3; n++) {
    t.equal((await callNode({ ...request, url })).text, '{}')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  t.equal(connections, 3)
})

t.test(
  'a node that breaks all its kept connections at once fails no request that is asked twice',
  async (t) => {
    const peers: Socket[] = []
    const url = await startPeer(t, (socket) => {
      peers.push(socket)
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
    })
    for (let n = 0; n < 10; n++) {
      await Promise.all(Array.from({ length: 8 }, () => callNode({ ...request, url })))
      for (const peer of peers.splice(0)) peer.resetAndDestroy()
      // Before this process has read any of them.
      await new Promise(setImmediate)
      const postToNode = () => callNode({ ...request, url })
      t.match(await postToNode().catch(postToNode), { status: 200, text: '{}' })
    }
  },
)

t.test('over TLS the certificate has to hold, and what Node is told to trust holds', async (t) => {
  const certificate = selfSignedCertificate(t, 'DNS:localhost')
  if (certificate === undefined) return
  const { key, cert, certFile } = certificate
  const server = createSecureServer({ key, cert }, (_asked, response) => void response.end('{}'))
  const url = `https://localhost:${await listening(t, server)}/secret-key`
  t.match(await failure(url), { kind: 'failed', message: /SELF_SIGNED|UNABLE_TO/ })
  t.match(await inProcess(url, 'text', { NODE_EXTRA_CA_CERTS: certFile }), '{}')
})

t.test('no message and no stack holds anything of the URL', async (t) => {
  const silent = await start(t, () => {})
  for (const url of [
    silent,
    'secret url',
    'ftp://secret',
    'http://secret-user:secret-%@127.0.0.1:9/secret',
    'http://secret.invalid/secret',
  ]) {
    const error = await failure(url, { timeoutMs: 1_000 })
    t.match(error, { name: 'NotAnswered' })
    t.notMatch(String((error as Error).stack), /secret/, url)
  }
})

t.test('an idle connection keeps no process from ending', async (t) => {
  const url = await start(t, (_asked, response) => void response.end('{}'))
  t.notMatch(await inProcess(url, '[process.getActiveResourcesInfo().join()]'), /TCP/)
})

/** The output of a separate process that has sent one request to this node. */
async function inProcess(url: string, print: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const script = `import { callNode } from ${JSON.stringify(new URL('./nodeHttp.ts', import.meta.url).href)}
    const { text } = await callNode(${JSON.stringify({ ...request, url })})
    await new Promise(setImmediate)
    console.log('got', text, ${print})`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  await once(child, 'close')
  if (!output.startsWith('got {}')) throw new Error(`expected an answer, got ${output}`)
  return output
}

t.test('answers that come in pieces, several at once, keep their own bytes', async (t) => {
  // A letter of two bytes for a mark in each, cut in its middle.
  const textOf = (n: number) => `{"id":${n},"result":"${`é${n}`.repeat(2_000)}"}`
  const url = await start(t, async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const bytes = Buffer.from(textOf(Number(body)))
    response.setHeader('Content-Length', bytes.length)
    const cut = bytes.indexOf(0xa9, bytes.length >> 1)
    for (const piece of [bytes.subarray(0, 50), bytes.subarray(50, cut), bytes.subarray(cut)]) {
      response.write(piece)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    response.end()
  })
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  const responses = await Promise.all(
    numbers.map((n) => callNode({ ...request, url, body: String(n), maxResponseBytes: 100_000 })),
  )
  t.same(
    responses.map(({ text }) => text),
    numbers.map(textOf),
  )
})
