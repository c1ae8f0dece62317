import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { whySkipped } from '../helpers/postgres.ts'

// The whole product on PostgreSQL: what these files ask of a store in a file, they ask of a schema as well.
const files = [
  'twoGateways.slow',
  'channelsTwoGateways.slow',
  'onePaymentOneCall',
  'paymentIdentifier',
  'signInWithX',
  'marketplace',
  'refunds.slow',
  'sessions.slow',
  'settleFirst.slow',
  'workers.slow',
  'feeInvoices.slow',
]
const skip = (await whySkipped()) ?? false

for (const name of files)
  t.test(`${name} on PostgreSQL`, { skip }, async (t) => {
    const file = new URL(`./${name}.test.ts`, import.meta.url).pathname
    const env = { ...process.env, TEST_STORE: 'postgres' }
    const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill())
    const [lines, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
    t.equal(code, 0, lines.split('\n').slice(-300).join('\n'))
    t.match(lines, /^ok 1 /m, 'it asserted something')
  })
