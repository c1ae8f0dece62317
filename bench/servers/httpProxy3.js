// http-proxy-3 as its README shows it, with a keep-alive agent.
import { Agent, createServer } from 'node:http'
import { createProxyServer } from 'http-proxy-3'

const { upstreamPort } = JSON.parse(process.argv[2])
const agent = new Agent({ keepAlive: true, maxSockets: 128 })
const proxy = createProxyServer({ target: `http://127.0.0.1:${upstreamPort}`, agent, xfwd: true })
const server = createServer((req, res) => proxy.web(req, res))
proxy.on('error', (_error, _req, res) => res.destroy())
server.listen(0, '127.0.0.1', 4096, () => console.log(JSON.stringify({ port: server.address().port })))
