import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { payee, signBody, smallPayments } from '../../test/helpers/vault/transfers.ts'
import { approvalText } from '../../vault/plugins/telegram/approvalText.ts'
import { approvalCard } from './approvalCommands.ts'

const noWait = { prefer: 'wait=0' }

t.test(
  'two equal payments are told apart: nonce, account, the one before, and whether the address is new',
  async (t) => {
    const vault = await startVault(t)
    const agent = await vault.agent('payer', ['wallet.base'])
    const other = await vault.agent('other', ['wallet.base'])
    await vault.api.policies.set('payer', smallPayments, vault.owner)
    const ask = async (nonce: number, by = agent) => {
      const { body } = await by.call('POST', '/v1/vault/sign', signBody('2', nonce), noWait)
      return vault.api.approvals.get(body.approval_id, vault.owner)
    }
    const first = await ask(7)
    t.match(first, { nonce: '7', from: /^0x9858/, recipient: payee, asked_before: null, first_time: true })
    const second = await ask(8)
    t.match(second, {
      nonce: '8',
      first_time: true,
      asked_before: { at: first.created_at, status: 'pending' },
    })
    t.equal((await ask(8)).id, second.id, 'the same bytes are the same question')
    for (const text of [
      approvalCard(second, 120),
      approvalText(vault.api.approvalQueue.get(second.id)!).text,
    ]) {
      t.match(text, /nonce 8/)
      t.match(text, /First time to this address/)
      t.match(text, /Asked before.*pending/)
    }
    t.match(await ask(9, other), { asked_before: null }, 'of its own agent only')

    t.equal((await agent.call('POST', '/v1/vault/sign', signBody('1', 10), noWait)).status, 200)
    t.match(await ask(11), { first_time: false }, 'also where a rule approved the payment before')
    await vault.asOwner('POST', `/v1/vault/approvals/${second.id}/deny`, {})
    t.match(await ask(12), { nonce: '12' })
  },
)

t.test('the same request many times at once is one question', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('payer', ['wallet.base'])
  const pendingApproval = await Promise.all(
    Array.from({ length: 20 }, () => agent.call('POST', '/v1/vault/sign', signBody('2', 1), noWait)),
  )
  t.equal(new Set(pendingApproval.map(({ body }) => body.approval_id)).size, 1)
})
