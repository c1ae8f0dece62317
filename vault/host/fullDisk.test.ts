import t from 'tap'
import { holdDisk } from '../testing/disk.ts'
import { signBody, smallPayments } from '../testing/transfers.ts'

// After the disk is held: what a module takes from node:fs, it takes once.
const { startVault } = await import('../testing/startVault.ts')

t.test(
  'on a full disk nothing is handed out or half written, and with room it works again at once',
  async (t) => {
    const vault = await startVault(t)
    const agent = await vault.agent('payer', ['wallet.base', 'identity.name'])
    await vault.api.policies.set('payer', smallPayments, vault.owner)
    await vault.vault.records.put('value', 'identity.name', 'Ada')
    const spent = () => BigInt(vault.api.budget(vault.owner, 'payer').budget[0]?.spent ?? 0)
    const signed = async () => (await vault.asOwner('GET', '/v1/vault/activity?action=SIGN')).body.events
    const disk = holdDisk(t)
    const refused: unknown[] = []
    for (let room = 0; room <= 2_000; room += 250) {
      disk.room = room
      for (const [path, body] of [
        ['sign', signBody('0.5')],
        ['sign-message', { chain: 'base', agent_name: 'test', message: 'hello' }],
        ['read', { scope: 'identity.name', agent_name: 'test' }],
      ] as const) {
        const { status, body: answer } = await agent.call('POST', `/v1/vault/${path}`, body, {
          prefer: 'wait=0',
        })
        if (status === 200 || status === 202) continue
        refused.push(path)
        t.match(
          [status, answer.error],
          [503, { code: 'STORAGE_UNAVAILABLE', retryable: true }],
          `${path}, ${room}`,
        )
        t.notMatch(JSON.stringify(answer), /signature|Ada/)
      }
    }
    t.ok(refused.length > 5, 'the disk was full')
    disk.room = Number.POSITIVE_INFINITY
    const { status, body } = await agent.call('POST', '/v1/vault/sign', signBody('0.5'))
    t.match([status, body], [200, { signed_tx: /^0x/ }], 'without a restart')
    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('0.25', 1))).status, 200)
    t.equal(spent(), 750_000n, 'each counted once, whatever was refused before')
    t.equal(
      (await signed()).filter((event: { status: string }) => event.status === 'AUTO_APPROVED').length,
      2,
    )
    t.match((await vault.asOwner('GET', '/v1/vault/activity/verify')).body, { ok: true })
    disk.failsFlush = true
    t.equal(
      (await agent.call('POST', '/v1/vault/sign', signBody('0.25', 2))).status,
      503,
      'nor with a broken flush',
    )
    const another = { name: 'another', scopes: ['identity.name'] }
    t.equal((await vault.asOwner('POST', '/v1/vault/agents', another)).status, 503)
    disk.failsFlush = false
    t.equal((await vault.asOwner('POST', '/v1/vault/agents', another)).status, 201, 'its name is not taken')
    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('0.25', 2))).status, 200)
    t.match((await vault.asOwner('GET', '/v1/vault/activity/verify')).body, { ok: true })
  },
)
