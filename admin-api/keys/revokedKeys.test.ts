import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { samePage, signInBrowser } from '../testing/browser.ts'
import { startAdmin } from '../testing/startAdmin.ts'

t.test('a key that another process has revoked changes nothing here, and makes no key', async (t) => {
  const first = await startAdmin(t)
  const second = await startAdmin(t, { ...first.db, sealer: first.sealer })
  const { key } = await first.store()
  const asked = await first.call('POST', '/api/v1/payments', { key, body: { amount: '1', title: 'x' } })
  for (const [method, path, body] of [
    ['POST', '/api/agent/keys', undefined],
    ['PATCH', '/api/v1/profile', { bio: 'moved' }],
    ['POST', `/api/v1/payments/${asked.body.data.id}/cancel`, undefined],
  ] as const) {
    const leaked = (await first.call('POST', '/api/agent/keys', { key })).body.data
    t.equal((await second.call('GET', '/api/v1/profile', { key: leaked.apiKey })).status, 200, 'it is kept')
    await first.call('DELETE', `/api/agent/keys/${leaked.id}`, { key })
    const { status } = await second.call(method, path, { key: leaked.apiKey, body })
    t.equal(status, 401, `${method} ${path}`)
    t.equal(
      (await second.call('GET', '/api/v1/profile', { key: leaked.apiKey })).status,
      401,
      'nor does it read',
    )
  }
  const { keys } = (await first.call('GET', '/api/agent/keys', { key })).body.data
  t.equal(keys.filter((one: { isActive: boolean }) => one.isActive).length, 1)
})

t.test('a request whose body ends after its key was revoked makes no key', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const { key } = await f.store()
  const leaked = (await f.call('POST', '/api/agent/keys', { key })).body.data
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const head = ['POST /api/agent/keys HTTP/1.1', 'Host: a', `Authorization: Bearer ${leaked.apiKey}`]
  socket.write(`${[...head, 'Content-Type: application/json', 'Content-Length: 2'].join('\r\n')}\r\n\r\n{`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await f.call('DELETE', `/api/agent/keys/${leaked.id}`, { key })
  socket.write('}')
  const [answer] = await once(socket, 'data')
  socket.destroy()
  t.match(String(answer), /^HTTP\/1\.1 401 /)
  const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
  t.equal(keys.filter((one: { isActive: boolean }) => one.isActive).length, 1)
})

t.test('a browser that signed out while it sent changes nothing', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const browser = await signInBrowser(f)
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const head = ['PATCH /api/v1/profile HTTP/1.1', 'Host: a', `Cookie: ${browser.cookie}`]
  head.push(`Origin: ${samePage.origin}`, 'Sec-Fetch-Site: same-origin', `X-CSRF-Token: ${browser.csrfToken}`)
  head.push('Content-Type: application/json', 'Content-Length: 14')
  socket.write(`${head.join('\r\n')}\r\n\r\n{"bio":`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await browser.call('DELETE', '/api/dashboard/session')
  socket.write('"late"}')
  const [answer] = await once(socket, 'data')
  socket.destroy()
  t.match(String(answer), /^HTTP\/1\.1 401 /)
})
