// What node:http costs when it answers a fixed head and body: the floor under a 402. In its first argument: the bytes.
import { createServer } from 'node:http'

const { headers, body } = JSON.parse(process.argv[2]!) as { headers: string[]; body: string }
const server = createServer({ keepAliveTimeout: 65_000 }, (_req, res) => {
  res.writeHead(402, headers)
  res.end(body, 'latin1')
})
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(JSON.stringify({ port: (server.address() as { port: number }).port }))
})
