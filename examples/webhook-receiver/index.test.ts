import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Webhook } from 'standardwebhooks'
import t from 'tap'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

t.test('the receiver takes for a sale what stands, once, and never money that is owed back', async (t) => {
  const receiver = spawn(process.execPath, [join(import.meta.dirname, 'index.ts')], {
    env: { PATH: process.env['PATH'], WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => void receiver.kill())
  const lines = createInterface(receiver.stdout)[Symbol.asyncIterator]()
  const url = String((await lines.next()).value)

  async function tell(id: string, event: string, status: string | undefined, purchaseId: string) {
    const data = { purchaseId, ...(status !== undefined && { status }) }
    const body = JSON.stringify({ event, purchaseId, amount: '0.01', type: event, data })
    const at = new Date()
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    }
    t.equal((await fetch(url, { method: 'POST', headers, body })).status, 200)
  }

  for (const status of ['refund_due', 'refunded', 'reorged', 'anything', undefined])
    await tell(`msg_${status}`, 'purchase.confirmed', status, `bad ${status}`)
  await tell('msg_due', 'refund.due', undefined, 'bad, due')
  await tell('msg_1', 'purchase.confirmed', 'settled', 'one')
  await tell('msg_1', 'purchase.confirmed', 'settled', 'one')
  await tell('msg_2', 'purchase.confirmed', 'delivered', 'two')
  t.strictSame(JSON.parse((await lines.next()).value!), { purchaseId: 'one', amount: '0.01' })
  t.strictSame(JSON.parse((await lines.next()).value!), { purchaseId: 'two', amount: '0.01' })
})
