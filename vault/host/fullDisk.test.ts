import { readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import { mountSmallDisk } from '../../test/helpers/servers/mountSmallDisk.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'

t.test(
  'on a full disk nothing is handed out or half written, and with room it works again at once',
  async (t) => {
    const folder = mountSmallDisk(t, '16m')
    if (folder === undefined) return
    const vault = await startVault(t, { home: join(folder, 'home') })
    const agent = await vault.agent('payer', ['wallet.base', 'identity.name'])
    await vault.api.policies.set('payer', smallPayments, vault.owner)
    await vault.vault.records.put('value', 'identity.name', 'Ada')
    const spent = () => BigInt(vault.api.budget(vault.owner, 'payer').budget[0]?.spent ?? 0)
    const signed = async () => (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN')).body.events
    /** Leaves this many pages of the disk free. */
    const leave = (pages: number) => {
      const filler = join(folder, 'filler')
      rmSync(filler, { force: true })
      const { bavail, bsize } = statfsSync(folder)
      writeFileSync(filler, Buffer.alloc(Math.max(0, bavail - pages) * bsize))
    }
    const makeRoom = () => rmSync(join(folder, 'filler'))
    const refused: unknown[] = []
    for (let pages = 0; pages <= 8; pages++) {
      leave(pages)
      for (const [path, body] of [
        ['sign', signBody('0.5')],
        ['sign-message', { chain: 'base', agent_name: 'test', message: 'hello' }],
        ['read', { scope: 'identity.name', agent_name: 'test' }],
      ] as const) {
        const { status, body: response } = await agent.call('POST', `/v1/vault/${path}`, body, {
          prefer: 'wait=0',
        })
        if (status === 200 || status === 202) continue
        refused.push(path)
        t.match(
          [status, response.error],
          [503, { code: 'STORAGE_UNAVAILABLE', retryable: true }],
          `${path}, ${pages}`,
        )
        t.notMatch(JSON.stringify(response), /signature|Ada/)
      }
    }
    t.ok(refused.length > 5, 'the disk was full')
    const warnings = async () => (await vault.asOwner('GET', '/v1/vault/status')).body.warnings
    leave(0)
    await agent.call('POST', '/v1/vault/read', { scope: 'identity.name', agent_name: 'test' })
    t.match(await warnings(), [{ code: 'LOG_UNWRITABLE', message: String, action: /Free space/ }])
    makeRoom()
    const { status, body } = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
    t.match([status, body], [200, { signed_tx: /^0x/ }], 'without a restart')
    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('0.25', 1))).status, 200)
    t.equal(spent(), 750_000n, 'each counted once, whatever was refused before')
    t.equal(
      (await signed()).filter((event: { status: string }) => event.status === 'AUTO_APPROVED').length,
      2,
    )
    t.match((await vault.asOwner('GET', '/v1/vault/activity/verify')).body, { ok: true })
    t.strictSame(await warnings(), [], 'and the owner is told so')
    leave(0)
    const another = { name: 'another', scopes: ['identity.name'] }
    t.equal((await vault.asOwner('POST', '/v1/vault/agents', another)).status, 503)
    makeRoom()
    t.equal((await vault.asOwner('POST', '/v1/vault/agents', another)).status, 201, 'its name is not taken')
    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('0.25', 2))).status, 200)
    t.match((await vault.asOwner('GET', '/v1/vault/activity/verify')).body, { ok: true })
    await vault.close()
    t.ok(readdirSync(join(folder, 'home')).includes('vault.1.db'))
  },
)

t.test('an agent that is refused again and again fills no log, and its owner is warned', async (t) => {
  const lines: unknown[] = []
  const vault = await startVault(t, {
    log: { ...silentLog, warn: (...line: unknown[]) => void lines.push(line) },
  })
  const agent = await vault.agent('eager', ['identity.name'])
  await vault.asOwner('PATCH', `/v1/vault/agents/${agent.id}`, { requests_per_minute: null })
  for (let n = 0; n < 120; n++) {
    const scope = n % 2 === 0 ? 'identity.email' : `custom.n${n}`
    const { status } = await agent.call('POST', '/v1/vault/read', { scope, agent_name: 'test' })
    if (status !== 403) t.equal(status, 403)
  }
  const { events } = (await vault.asOwner('GET', '/v1/vault/activity?agent=eager')).body
  t.ok(events.length >= 1 && events.length <= 21, `${events.length} entries`)
  const { warnings } = (await vault.asOwner('GET', '/v1/vault/status')).body
  t.match(warnings, [
    { code: 'LOG_REFUSALS', message: /eager was refused 100 times/, action: /--agent eager/ },
  ])
  t.match(lines, [[{ code: 'LOG_REFUSALS' }, /eager/]], 'and in the log of the process, once')
  t.equal((await agent.call('GET', '/v1/vault/status')).body.warnings, undefined, 'agents are not told')
})
