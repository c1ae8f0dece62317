import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { startAdmin } from '../test/helpers/admin-api/startAdmin.ts'

t.test('an admin API that stops does not wait for requests that never come to their end', async (t) => {
  const { admin } = await startAdmin(t)
  const { port } = await admin.listen({ host: '127.0.0.1', port: 0 })
  const type = 'Content-Type: application/json'
  for (const part of [
    'POST /api/agent/signup HTTP/1.1\r\nHost:',
    `POST /api/agent/signup HTTP/1.1\r\nHost: a\r\n${type}\r\nContent-Length: 10\r\n\r\n{`,
  ]) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(part)
  }
  await new Promise((resolve) => setTimeout(resolve, 100))
  const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'late').unref())
  t.equal(await Promise.race([admin.close().then(() => 'closed'), late]), 'closed')
})
