import t from 'tap'
import { createEgress } from '../../adapters/egress/egress.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { startNameServer } from '../../test/helpers/servers/nameServer.ts'

const addresses: Readonly<Record<string, string>> = {
  'public.test': '93.184.215.14',
  'loopback.test': '127.0.0.1',
  'metadata.google.internal': '169.254.169.254',
  'azure.test': '168.63.129.16',
  'intranet.test': '10.1.2.3',
}

t.test('a link’s and a webhook’s host is looked up and judged when it is saved, free or not', async (t) => {
  const names = await startNameServer(t, (name, type) =>
    type === 'A' && addresses[name] !== undefined ? [addresses[name]] : 'NXDOMAIN',
  )
  const own = { dnsServers: [names.address], allowPrivateCidrs: ['10.1.0.0/16'] }
  const egress = createEgress({ ...own, publicPorts: [80, 443, 8443] })
  const plain = createEgress(own)
  t.teardown(() => Promise.all([egress.close(), plain.close()]))
  const f = await startAdmin(t, { egress })
  const { key } = await f.store()
  const create = (body: object) =>
    f.call('POST', '/api/v1/links', { key, body: { url: 'http://public.test/', title: 'T', ...body } })

  const refused: readonly [url: string, code: string][] = [
    ['http://loopback.test/', 'private_address'],
    ['https://metadata.google.internal/computeMetadata/v1/', 'private_address'],
    ['http://azure.test/', 'private_address'],
    ['http://168.63.129.16/', 'private_address'],
    ['http://[64:ff9b::a83f:8110]/', 'private_address'],
    ['http://public.test:25/', 'port'],
    ['http://93.184.215.14:6379/', 'port'],
    ['http://nowhere.test:6379/', 'port'],
  ]
  for (const [url, code] of refused) {
    for (const field of ['url', 'webhookUrl']) {
      const { status, body } = await create({ [field]: url })
      t.strictSame(
        {
          status,
          code: body.error.code,
          details: body.error.details.map((d: object) => ({ ...d, message: 0 })),
        },
        { status: 400, code: 'VALIDATION_ERROR', details: [{ path: field, code, message: 0 }] },
        `${field} ${url}`,
      )
      t.notMatch(JSON.stringify(body), /127\.0|169\.254|10\.1/, 'and no address behind a name is told')
    }
  }
  const both = await create({ url: 'http://loopback.test/', webhookUrl: 'http://public.test:25/' })
  t.strictSame(
    both.body.error.details.map((d: { path: string }) => d.path),
    ['url', 'webhookUrl'],
  )

  for (const url of [
    'http://public.test/a',
    'https://public.test:443/',
    'https://public.test:8443/',
    'http://intranet.test:9000/',
    'https://nowhere.test/',
  ]) {
    t.equal((await create({ url, webhookUrl: url })).status, 201, url)
  }
  t.equal(
    (await create({ url: 'http://public.test:25/', linkType: 'standard' })).status,
    201,
    'a buyer opens it, not we',
  )

  const { body } = await create({})
  const change = (patch: object) => f.call('PATCH', `/api/v1/links/${body.data.id}`, { key, body: patch })
  t.equal((await change({ url: 'http://loopback.test/' })).status, 400)
  t.equal((await change({ webhookUrl: 'http://azure.test/' })).status, 400)
  const asked = names.questions.length
  t.equal((await change({ title: 'Another', url: 'http://public.test/' })).status, 200)
  t.equal(names.questions.length, asked, 'what did not change is not asked for again')

  await t.rejects(
    plain.judgeUrl('https://public.test:8443/'),
    { code: 'VALIDATION_ERROR' },
    '80 and 443 by default',
  )
  await plain.judgeUrl('https://public.test/')
})
