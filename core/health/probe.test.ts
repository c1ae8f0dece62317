import { createServer, type Server, type ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { createEgress } from '../../adapters/egress/egress.ts'
import { probe } from './probe.ts'

const timeoutMs = 5_000
const loopMark = 'tollgate-1-2'

function egressOf(t: Test, allowPrivateCidrs = ['127.0.0.0/8']) {
  const egress = createEgress({ allowPrivateCidrs })
  t.teardown(() => egress.close())
  return egress
}

async function listen(t: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

const seller = (t: Test, respond: (path: string, response: ServerResponse) => void) =>
  listen(
    t,
    createServer((request, response) => respond(request.url ?? '', response)),
  )

t.test('every status below 500 is reachable, every other is not', async (t) => {
  const egress = egressOf(t)
  const url = await seller(t, (path, response) => response.writeHead(Number(path.slice(1))).end('x'))
  for (const status of [200, 204, 301, 400, 401, 402, 404, 405, 429, 499]) {
    const report = await probe(egress, { loopMark, url: `${url}/${status}`, timeoutMs })
    t.match(report, { ok: true, status, detail: `The response has status ${status}.` })
  }
  for (const status of [500, 502, 503, 599]) {
    const report = await probe(egress, { loopMark, url: `${url}/${status}`, timeoutMs })
    t.match(report, { ok: false, status })
  }
})

t.test('the path, the query and the headers of the link are sent, with GET', async (t) => {
  const egress = egressOf(t)
  const seen: unknown[] = []
  const server = createServer((request, response) => {
    seen.push([request.method, request.url, request.headers['x-token']])
    response.end()
  })
  const url = await listen(t, server)
  await probe(egress, { loopMark, url: `${url}/a%20b?c=d`, timeoutMs, headers: { 'x-token': 'secret' } })
  t.same(seen, [['GET', '/a%20b?c=d', 'secret']])
})

t.test('a stream without an end and a download without a limit are healthy, and are let go', async (t) => {
  const egress = egressOf(t)
  let closed = 0
  let announceClosed = () => {}
  const bothClosed = new Promise<void>((resolve) => (announceClosed = resolve))
  const url = await seller(t, (path, response) => {
    response.on('close', () => ++closed === 2 && announceClosed())
    response.writeHead(200)
    if (path === '/stream') return response.write(': hello\n\n')
    const pour = () => {
      while (!response.destroyed && response.write(Buffer.alloc(16_384)));
    }
    response.on('drain', pour)
    pour()
  })
  t.match(await probe(egress, { loopMark, url: `${url}/stream`, timeoutMs: 500 }), { ok: true, status: 200 })
  t.match(await probe(egress, { loopMark, url: `${url}/download`, timeoutMs }), { ok: true, status: 200 })
  await bothClosed
  t.equal(closed, 2)
})

t.test('an API that never answers costs the time limit and no more', async (t) => {
  const egress = egressOf(t)
  const url = await seller(t, () => {})
  t.match(await probe(egress, { loopMark, url, timeoutMs: 50 }), {
    ok: false,
    status: null,
    detail: 'No response within 0.05 s.',
  })
})

t.test('a dead port, a broken answer and a private address are reported, never thrown', async (t) => {
  const egress = egressOf(t)
  const gone = createServer()
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve))
  const { port } = gone.address() as { port: number }
  await new Promise((resolve) => gone.close(resolve))
  t.match(await probe(egress, { loopMark, url: `http://127.0.0.1:${port}/`, timeoutMs }), {
    ok: false,
    status: null,
    detail: /does not listen/,
  })

  const broken = createTcpServer((socket) => socket.once('data', () => socket.end('SMTP ready\r\n\r\n')))
  await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve))
  t.teardown(() => broken.close())
  const { port: brokenPort } = broken.address() as { port: number }
  t.match(await probe(egress, { loopMark, url: `http://127.0.0.1:${brokenPort}/`, timeoutMs }), {
    ok: false,
    status: null,
    detail: /broke|not well-formed/,
  })

  const strict = egressOf(t, [])
  t.match(await probe(strict, { loopMark, url: 'http://169.254.169.254/latest', timeoutMs }), {
    ok: false,
    status: null,
    detail: /not public/,
  })
})

t.test('the detail never carries what was sent or received', async (t) => {
  const egress = egressOf(t)
  const url = await seller(t, (_path, response) => response.writeHead(500, 'topsecret').end('topsecret'))
  const report = await probe(egress, { loopMark, url, timeoutMs, headers: { authorization: 'topsecret' } })
  t.notMatch(JSON.stringify(report), /topsecret/)
})
