import t, { type Test } from 'tap'
import { createTestClock, type RunningVault, startVault } from '../../../test/helpers/vault/startVault.ts'
import { VaultError } from '../../errors/error.ts'

const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const seller = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'
const url = 'https://api.example.com/paid'
const account = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

const orderOf = (voucher_total: string, deposit?: string, payTo = seller, scheme = 'batch-settlement') => ({
  payment_required: {
    x402Version: 2,
    resource: { url },
    accepts: [
      {
        network: 'eip155:8453',
        amount: '250000',
        asset: usdc,
        payTo,
        maxTimeoutSeconds: 60,
        scheme,
        extra: {
          name: 'USD Coin',
          version: '2',
          receiverAuthorizer: account,
          withdrawDelay: 86_400,
        },
      },
    ],
  },
  max_amount: '0.25',
  url,
  agent_name: 'shopper',
  ...(scheme === 'batch-settlement' && { voucher_total }),
  ...(deposit !== undefined && { deposit }),
})

async function start(t: Test, rules?: object) {
  const clock = createTestClock()
  const vault = await startVault(t, { clock })
  const agentOf = async (name: string) => {
    const agent = await vault.agent(name, ['wallet.base'])
    if (rules !== undefined) await vault.api.policies.set(agent.id, rules, vault.owner)
    return (order: object, headers: Record<string, string> = { prefer: 'wait=0' }) =>
      agent.call('POST', '/v1/vault/sign-payment', order, headers)
  }
  return { vault, clock, agentOf }
}

const open = ({ api, owner }: RunningVault) =>
  api.approvals.list(owner).approvals.filter(({ status }) => status === 'pending')

/** Fulfilled with the open approvals once there are as many. */
async function questions(vault: RunningVault, count: number) {
  while (open(vault).length < count) await new Promise(setImmediate)
  return open(vault)
}

async function approveAll(vault: RunningVault, count: number): Promise<void> {
  for (const { id, decision_hash } of await questions(vault, count))
    await vault.api.approvals.approve(id, decision_hash, vault.owner)
}

/** What the vault has spent and reserved today, in USDC's smallest units. */
const usedOf = ({ vault }: RunningVault) =>
  vault.budget.usedAll({ kind: 'vault' }).reduce((sum, { spent, reserved }) => sum + spent + reserved, 0n)

const depositIn = ({ body }: { body: { payment_header: string } }) =>
  JSON.parse(Buffer.from(body.payment_header, 'base64').toString()).payload.deposit

const auto = {
  assets: [{ chain: 'base', symbol: 'USDC', autoApproveUpTo: '1', perTransaction: '2', perDay: '3' }],
  recipients: 'any',
  deposits: { autoApproveUpTo: '1', maxHours: 24 },
}

t.test('a deposit by Permit2 is refused, and nothing is counted', async (t) => {
  const { vault, agentOf } = await start(t, auto)
  const call = await agentOf('shopper')
  const order = orderOf('0.25', '1')
  Object.assign(order.payment_required.accepts[0]!.extra, { assetTransferMethod: 'permit2' })
  const refused = await call(order)
  t.match(refused, { status: 400, body: { error: { message: /by Permit2, which the vault does not sign/ } } })
  t.equal(usedOf(vault), 0n)
})

t.test('of two agents whose first deposits wait together, one gets the channel', async (t) => {
  const { vault, agentOf } = await start(t)
  const agents = [await agentOf('first'), await agentOf('second')]
  const waiting = agents.map((call) => call(orderOf('0.25', '2'), { prefer: 'wait=20' }))
  await approveAll(vault, 2)
  const statuses = (await Promise.all(waiting)).map(({ status }) => status)
  t.strictSame(statuses.toSorted(), [200, 409])
  for (const [i, call] of agents.entries())
    t.equal((await call(orderOf('0.5'))).status, statuses[i] === 200 ? 200 : 403)
  t.equal(usedOf(vault), 2_000_000n, 'the other deposit is not counted')
})

t.test('two equal deposits under different keys that wait together are one deposit', async (t) => {
  const { vault, agentOf } = await start(t)
  const call = await agentOf('shopper')
  const ask = (key: string) => call(orderOf('0.25', '2'), { prefer: 'wait=20', 'idempotency-key': key })
  const waiting = [ask('one'), ask('two')]
  await approveAll(vault, 2)
  const answers = await Promise.all(waiting)
  t.strictSame(answers.map(({ status }) => status).toSorted(), [200, 409])
  const again = await call(orderOf('0.25', '2'))
  t.strictSame(depositIn(again), depositIn(answers.find(({ status }) => status === 200)!))
  t.equal((await call(orderOf('2.000001'))).status, 403)
})

t.test('equal deposits at once, which the rules allow, are one deposit', async (t) => {
  const { vault, agentOf } = await start(t, auto)
  const call = await agentOf('shopper')
  const answers = await Promise.all(
    ['one', 'two', 'three'].map((key) => call(orderOf('0.25', '1'), { 'idempotency-key': key })),
  )
  const deposits = new Set(
    answers
      .filter(({ status }) => status === 200)
      .map((one) => depositIn(one).authorization.erc3009Authorization.salt),
  )
  t.equal(deposits.size, 1)
  t.equal(usedOf(vault), 1_000_000n)
  t.equal((await call(orderOf('1.000001'))).status, 403)
})

t.test('an approval gives one deposit, also if the log could not be written', async (t) => {
  const { vault, clock, agentOf } = await start(t)
  const call = await agentOf('shopper')
  t.equal((await call(orderOf('0.25', '2'))).status, 202)
  await approveAll(vault, 1)
  const { audit } = vault.vault
  const append = audit.append.bind(audit)
  audit.append = async () => {
    throw new VaultError('STORAGE_UNAVAILABLE')
  }
  t.equal((await call(orderOf('0.25', '2'))).status, 503)
  audit.append = append
  clock.advance(61_000)
  const got = await call(orderOf('0.25', '2'))
  t.equal(got.status, 200, 'the approval is not used up')
  t.strictSame(depositIn(await call(orderOf('0.25', '2'))), depositIn(got))
  t.equal((await call(orderOf('2.000001'))).status, 403, 'one deposit limits the vouchers')
  clock.advance(61_000)
  t.equal((await call(orderOf('0.25', '2'))).status, 202, 'a further deposit is asked about')
})

t.test('a stored deposit whose approval expired unused is asked about again', async (t) => {
  const { vault, clock, agentOf } = await start(t)
  const call = await agentOf('shopper')
  const order = orderOf('0.25', '2')
  order.payment_required.accepts[0]!.maxTimeoutSeconds = 3_600
  await call(order)
  await approveAll(vault, 1)
  const { audit } = vault.vault
  const append = audit.append.bind(audit)
  audit.append = async () => {
    throw new VaultError('STORAGE_UNAVAILABLE')
  }
  await call(order)
  audit.append = append
  clock.advance(301_000)
  t.equal((await call(order)).status, 202)
})

t.test(
  'vouchers that continue deposits without a record are asked about with their total, and end there',
  async (t) => {
    const { vault, agentOf } = await start(t, auto)
    const call = await agentOf('shopper')
    t.equal((await call(orderOf('50', '1'))).status, 202)
    const [question] = open(vault)
    t.match(
      question!.effects.join(' '),
      /no record of earlier deposits into this channel\. It signs vouchers up to a total of 50\.75 USDC/,
    )
    t.match(question!.reasons.join(' '), /earlier deposits of which the vault has no record/)
    t.equal((await call(orderOf('50.1', '0.1'))).status, 400, 'the deposit has to cover this call')
    t.equal((await call(orderOf('50.25', '1'))).status, 202, 'another total is another question')
    await vault.api.approvals.approve(question!.id, question!.decision_hash, vault.owner)
    t.equal((await call(orderOf('50', '1'))).status, 200)
    t.equal((await call(orderOf('50.75'))).status, 200)
    t.equal((await call(orderOf('50.750001'))).status, 403)
  },
)

t.test('a restored backup that has only the first deposits asks about the next one', async (t) => {
  const { vault, agentOf } = await start(t, auto)
  const call = await agentOf('shopper')
  t.equal((await call(orderOf('0.25', '1'))).status, 200)
  t.equal((await call(orderOf('3.25', '1'))).status, 202, 'the channel has had 3 USDC')
  const [question] = open(vault)
  t.match(question!.effects.join(' '), /no record of earlier deposits.* up to a total of 4 USDC/)
  t.match(question!.reasons.join(' '), /earlier deposits of which the vault has no record/)
  await vault.api.approvals.approve(question!.id, question!.decision_hash, vault.owner)
  t.equal((await call(orderOf('3.25', '1'))).status, 200)
  t.equal((await call(orderOf('4'))).status, 200)
  t.equal((await call(orderOf('4.000001'))).status, 403)
  t.equal(usedOf(vault), 2_000_000n, 'only signed deposits are counted')
})

t.test(
  'deposits to several sellers and payments share the day, and no seller is outside the recipients',
  async (t) => {
    const other = '0x00000000000000000000000000000000deadbeef'
    const { vault, agentOf } = await start(t, auto)
    const call = await agentOf('shopper')
    t.equal((await call(orderOf('0.25', '2.1'))).status, 403, 'above one transaction')
    t.equal((await call(orderOf('0.25', '1'))).status, 200)
    t.equal((await call(orderOf('0.25', '1', other))).status, 200)
    t.equal((await call(orderOf('', undefined, seller, 'exact'))).status, 200)
    t.equal(usedOf(vault), 2_250_000n)
    const above = await call(orderOf('0.25', '0.8', account))
    t.match(above, { status: 403, body: { error: { code: 'BUDGET_EXCEEDED_DAILY' } } })
    const atOnce = [seller, other, account].map((payTo) => call(orderOf('0.5', '0.5', payTo)))
    const paid = (await Promise.all(atOnce)).filter(({ status }) => status === 200)
    t.equal(paid.length, 1, 'deposits at once do not pass the limit')
    const listed = { ...auto, recipients: [{ chain: 'base', address: seller }] }
    await vault.api.policies.set('shopper', listed, vault.owner)
    const stranger = await call(orderOf('0.25', '0.25', '0x00000000000000000000000000000000deadbee0'))
    t.match(stranger, { status: 403, body: { error: { code: 'SCOPE_DENIED' } } })
  },
)

t.test('vouchers at once are signed, each up to the deposits', async (t) => {
  const { agentOf } = await start(t, auto)
  const call = await agentOf('shopper')
  await call(orderOf('0.25', '1'))
  const totals = ['1', '0.5', '1.000001', '0.75', '2']
  const answers = await Promise.all(totals.map((total) => call(orderOf(total))))
  t.strictSame(
    answers.map(({ status }) => status),
    [200, 200, 403, 200, 403],
  )
})

t.test(
  'a deposit whose voucher could not be signed does not leave later without being counted',
  async (t) => {
    const { vault, agentOf } = await start(t, auto)
    const call = await agentOf('shopper')
    const { signer } = vault.vault
    const sign = signer.sign.bind(signer)
    signer.sign = async (request) => {
      if (!request.requestId.endsWith('_deposit')) throw new VaultError('SIGNER_LOST')
      return sign(request)
    }
    t.equal((await call(orderOf('0.25', '1'))).status, 503)
    t.equal(usedOf(vault), 0n)
    signer.sign = sign
    t.equal((await call(orderOf('0.25', '1'))).status, 200)
    t.equal(usedOf(vault), 1_000_000n)
  },
)

t.test('a request under one key gets one deposit, however late it is repeated', async (t) => {
  const { vault, clock, agentOf } = await start(t)
  const call = await agentOf('shopper')
  const again = () => call(orderOf('0.25', '2'), { prefer: 'wait=0', 'idempotency-key': 'one' })
  await again()
  await approveAll(vault, 1)
  const first = depositIn(await again())
  clock.advance(61_000)
  t.strictSame(depositIn(await again()), first, 'the deposit itself has expired')
  clock.advance(300_000)
  t.strictSame(depositIn(await again()), first, 'the approval has expired, too')
  t.equal(usedOf(vault), 2_000_000n)
  t.equal((await call(orderOf('0.25', '2'))).status, 202, 'without the key it is a further deposit')
})
