// What a relay on undici's dispatch costs with nothing around it: no limits, no rules, no link, no metrics. The head is
// passed on as it came, less the hop-by-hop headers. The gateway is measured against this. With `byHost` a path begins with the address of
// the seller that it goes to, each of whom has connections of its own.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Dispatcher, Pool } from 'undici'

const { upstreamPort, byHost = false } = JSON.parse(process.argv[2]!) as {
  upstreamPort: number
  byHost?: boolean
}
const poolOf = (host: string) =>
  new Pool(`http://${host}:${upstreamPort}`, { connections: 128, pipelining: 1 })
const pool = poolOf('127.0.0.1')
const pools = new Map<string, Pool>()

class Relay {
  readonly #res: ServerResponse
  #length = -1

  constructor(res: ServerResponse) {
    this.#res = res
  }

  onRequestStart(): void {}

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const raw = controller.rawHeaders as Buffer[]
    const headers: string[] = []
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i]!.toString('latin1')
      const value = raw[i + 1]!.toString('latin1')
      if (name.length === 10 && /^(connection|keep-alive)$/i.test(name)) continue
      if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') continue
      if (name.length === 14 && name.toLowerCase() === 'content-length') this.#length = Number(value)
      if (name.length === 4 && name.toLowerCase() === 'date') this.#res.sendDate = false
      headers.push(name, value)
    }
    this.#res.writeHead(status, headers)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#length === chunk.length && chunk.length <= 16_384) {
      this.#res.end(chunk.toString('latin1'), 'latin1')
    } else if (!this.#res.write(chunk)) {
      controller.pause()
      this.#res.once('drain', () => controller.resume())
    }
  }

  onResponseEnd(): void {
    if (!this.#res.writableEnded) this.#res.end()
  }

  onResponseError(): void {
    this.#res.destroy()
  }
}

function onRequest(req: IncomingMessage, res: ServerResponse): void {
  const raw = req.rawHeaders
  const headers: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!
    if (name.length === 4 && name.toLowerCase() === 'host') continue
    if (name.length === 10 && name.toLowerCase() === 'connection') continue
    headers.push(name, raw[i + 1]!)
  }
  const body = req.headers['content-length'] === undefined ? null : req
  const method = req.method as 'GET'
  if (!byHost) return void pool.dispatch({ path: req.url!, method, headers, body }, new Relay(res) as never)
  const end = req.url!.indexOf('/', 1)
  const host = req.url!.slice(1, end)
  let own = pools.get(host)
  if (own === undefined) pools.set(host, (own = poolOf(host)))
  own.dispatch({ path: req.url!.slice(end), method, headers, body }, new Relay(res) as never)
}

const server = createServer({ keepAliveTimeout: 65_000 }, onRequest)
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(JSON.stringify({ port: (server.address() as { port: number }).port }))
})
