import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { createPipeline } from '../program.ts'
import { accessOf } from './linkAccess.ts'

t.test('the options of access are sent as the field of the API', async (t) => {
  const bodies: unknown[] = []
  const link = { id: 'i', slug: 'weather', title: 'T', price: '0.1', currency: 'USDC', methods: [] }
  const server = createServer(async (request, response) => {
    if (request.method !== 'GET') bodies.push(await json(request))
    const data = request.method === 'GET' ? { links: [link], nextCursor: null } : { ...link, fullUrl: 'u' }
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ success: true, data }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { write } = process.stdout
  process.env['TOLLGATE_API_KEY'] = 'tg_live_test'
  t.teardown(() => {
    process.stdout.write = write
    process.exitCode = undefined
    delete process.env['TOLLGATE_API_KEY']
  })
  const gateway = ['--json', '--gateway', `http://127.0.0.1:${(server.address() as AddressInfo).port}`]
  const run = async (...args: string[]) => {
    process.stdout.write = () => true
    await createPipeline()
      .parseAsync(['link', ...args, ...gateway], { from: 'user' })
      .finally(() => {
        process.stdout.write = write
      })
  }
  await run('create', 'https://a.example', '--price', '0.1', '--access-paid-for', '24h')
  await run('add', 'https://a.example', '--access-signed-in')
  await run('add', 'https://a.example')
  await run('set', 'weather', '--access-paid-for', '7d')
  await run('set', 'weather', '--no-access')
  await run('set', 'weather', '--title', 'Other')
  t.match(bodies, [
    { access: { paidFor: '24h' } },
    { access: 'signed-in' },
    {},
    { access: { paidFor: '7d' } },
    { access: null },
    { title: 'Other' },
  ])
  for (const at of [2, 5]) t.notOk('access' in (bodies[at] as object))
})

t.test('several options of access are refused', async (t) => {
  t.throws(() => accessOf({ accessPaidFor: '1h', accessSignedIn: true }), { message: /got several/ })
  t.throws(() => accessOf({ accessPaidFor: '1h', access: false }), { message: /got several/ })
})
