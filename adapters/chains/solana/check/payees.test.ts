import t from 'tap'
import { silentLog } from '../../../../core/ports/log.ts'
import { RpcUnreachable } from '../../../../core/rpc/post.ts'
import { readAddress } from '../../../../core/solana/addresses.ts'
import { addressOf, newCast, rulesOf, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import type { Rpc } from '../rpc/nodes.ts'
import { createPayees } from './payees.ts'

/** Payees of a chain with the test's accounts, which are rechecked at once. */
function setUp(againMs = 1) {
  const rules = rulesOf(newCast())
  const requests: number[] = []
  const arrivals: (() => void)[] = []
  let respond: (index: number) => unknown = () => null
  const rpc: Pick<Rpc, 'call'> = {
    async call<T>(method: string, ...params: unknown[]) {
      if (method !== 'getMultipleAccounts') throw new Error(`unexpected ${method}`)
      const addresses = params[0] as string[]
      requests.push(addresses.length)
      for (const arrived of arrivals.splice(0)) arrived()
      return { context: { slot: 1 }, value: addresses.map((_, i) => respond(i)) } as T
    },
  }
  const payees = createPayees({ rpc, rules, log: silentLog, againMs })
  // Its own timers keep no process alive, and here nothing else does.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => {
    clearInterval(alive)
    payees.close()
  })
  return {
    payees,
    requests,
    newWallet: () => addressOf(newCast().seller),
    answerBy(next: typeof respond) {
      respond = next
    },
    /** Resolves after the response to one more request was read. */
    async asksAgain() {
      await new Promise<void>((resolve) => arrivals.push(resolve))
      await new Promise(setImmediate)
    },
  }
}

const tokenAccount = (owner: string, state = 1, program = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA') => {
  const data = Buffer.alloc(165)
  data.set(readAddress(owner)!, 32)
  data[108] = state
  return { owner: program, data: [data.toString('base64'), 'base64'] }
}

t.test(
  'a payee without an account can be paid as soon as there is one, without being asked for',
  async (t) => {
    const { payees, newWallet, answerBy, asksAgain, requests } = setUp()
    const wallet = newWallet()
    const payee = payees.payee(usdc.address, wallet)
    t.equal(payee.fault, undefined, 'before anybody knows, it is offered')
    await payee.reading
    t.match(payee.fault, new RegExp(`${wallet} has no account`))
    await asksAgain()
    t.match(payee.fault, /has no account/)
    answerBy(() => tokenAccount(wallet))
    await asksAgain()
    t.equal(payee.fault, undefined)
    const questions = requests.length
    t.equal(payees.payee(usdc.address, wallet), payee)
    await new Promise((resolve) => setTimeout(resolve, 20))
    t.equal(requests.length, questions, 'one that is there is not asked for again')
  },
)

t.test('an account that is frozen, somebody else’s or no token account is none', async (t) => {
  const { payees, newWallet, answerBy } = setUp()
  const wallet = newWallet()
  const payee = payees.payee(usdc.address, wallet)
  for (const [account, why] of [
    [tokenAccount(wallet, 2), /is frozen/],
    [tokenAccount(newWallet()), /has no account/],
    [tokenAccount(wallet, 1, wallet), /has no account/],
    [{ owner: wallet, data: ['', 'base64'] }, /has no account/],
  ] as const) {
    answerBy(() => account)
    t.equal(await payee.refresh(), true)
    t.match(payee.fault, why)
  }
  answerBy(() => tokenAccount(wallet))
  await payee.refresh()
  t.equal(payee.fault, undefined)
})

t.test('many payees are one question per hundred', async (t) => {
  const { payees, newWallet, requests } = setUp(60_000)
  const all = Array.from({ length: 250 }, () => payees.payee(usdc.address, newWallet()))
  await Promise.all(all.map(({ reading: readings }) => readings))
  t.same(requests, [100, 100, 50])
  t.ok(all.every(({ fault }) => fault !== undefined))
})

t.test('while no node answers nothing is held against anybody, and what was known stays', async (t) => {
  const { payees, newWallet, answerBy } = setUp(60_000)
  const missing = payees.payee(usdc.address, newWallet())
  await missing.reading
  answerBy(() => {
    throw new RpcUnreachable('gone')
  })
  const unknown = payees.payee(usdc.address, newWallet())
  await unknown.reading
  t.equal(unknown.fault, undefined)
  t.equal(await missing.refresh(), false)
  t.match(missing.fault, /has no account/)
  t.equal(payees.payee('not a token', newWallet()).fault, undefined)
  t.equal(payees.payee(usdc.address, 'not a wallet').reading, undefined)
})
