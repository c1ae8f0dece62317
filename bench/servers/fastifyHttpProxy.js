// @fastify/http-proxy as its README shows it.
import httpProxy from '@fastify/http-proxy'
import Fastify from 'fastify'

const { upstreamPort } = JSON.parse(process.argv[2])
const app = Fastify()
app.register(httpProxy, {
  upstream: `http://127.0.0.1:${upstreamPort}`,
  undici: { connections: 128, pipelining: 1 },
})
await app.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
console.log(JSON.stringify({ port: app.server.address().port }))
