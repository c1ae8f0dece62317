import type { Test } from 'tap'
import t from 'tap'
import { defaultLimits } from '../../admin-api/deps.ts'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { silentLog } from '../../core/ports/log.ts'
import { pluginSource } from './readConfig.ts'
import { startTollgate } from './startTollgate.ts'

const read = (t: Test, admin: object) => {
  const dir = t.testdir()
  const text = JSON.stringify({
    publicUrl: 'http://gateway.test',
    gateway: { port: 0 },
    admin: { port: 0, ...admin },
    storage: { path: `${dir}/tollgate.db` },
    secretFile: `${dir}/secret`,
    plugins: [{ use: 'upstream' }],
  })
  return parseConfig(text, { file: `${dir}/tollgate.json`, env: {}, plugins: pluginSource(dir) })
}

t.test('the limits of the admin API are those of the configuration, per client', async (t) => {
  const loaded = await read(t, { limits: { noncePerMinute: 1, storePerMinute: 2 } })
  const tollgate = await startTollgate(loaded, { env: {}, log: silentLog })
  t.teardown(() => tollgate.close())
  const ask = (client: string) =>
    fetch(`${tollgate.adminUrl}/api/agent/auth/nonce`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': client },
      body: JSON.stringify({ address: `0x${'1'.repeat(40)}`, chain: 'base' }),
    })
  const first = await ask('2001:db8::1')
  t.equal(first.status, 200)
  t.equal(first.headers.get('x-ratelimit-remaining'), '0')
  t.ok(Number(first.headers.get('x-ratelimit-reset')) > 0)
  const refused = await ask('2001:db8::ffff:2')
  t.equal(refused.status, 429, 'the same /64')
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.equal((await ask('2001:db8:0:1::1')).status, 200)
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await fetch(`${tollgate.adminUrl}/api/store/nobody`)).status)
  t.strictSame(statuses, [404, 404, 429])
})

t.test('without options the limits are those of the interface', async (t) => {
  const { config } = await read(t, {})
  t.strictSame({ ...config.admin.limits }, { ...defaultLimits })
})
