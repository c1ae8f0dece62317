// The canned seller: as little work per request as node can do, so that it is never what is measured.
// In its first argument, where it is to be found at a certain place: {port, host}.
import { createServer } from 'node:net'
import { cannedJson } from './offer.ts'

const { port = 0, host = '127.0.0.1' } = JSON.parse(process.argv[2] ?? '{}') as {
  port?: number
  host?: string
}
const responses = new Map(
  [1_024, 102_400].map((bytes) => {
    const body = cannedJson(bytes)
    const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: ${body.length}\r\n\r\n`
    return [bytes, Buffer.from(head + body, 'latin1')]
  }),
)
const small = responses.get(1_024)!
const large = responses.get(102_400)!

const server = createServer({ noDelay: true }, (socket) => {
  let open = ''
  /** Bytes of a request's body that are still to come. */
  let owed = 0
  /** The answer to the request whose body is coming. */
  let next = small
  socket.setEncoding('latin1')
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk: string) => {
    open += chunk
    for (;;) {
      if (owed > 0) {
        if (open.length < owed) {
          owed -= open.length
          open = ''
          return
        }
        open = open.slice(owed)
        owed = 0
        socket.write(next)
      }
      const end = open.indexOf('\r\n\r\n')
      if (end === -1) return
      const head = open.slice(0, end)
      open = open.slice(end + 4)
      next = head.includes(' /100k') ? large : small
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)
      if (length === null) socket.write(next)
      else if ((owed = Number(length[1])) === 0) socket.write(next)
    }
  })
})
server.listen(port, host, 4096, () => {
  console.log(JSON.stringify({ port: (server.address() as { port: number }).port }))
})
