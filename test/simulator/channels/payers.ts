import { hash } from 'node:crypto'
import { channelReasons } from '../../../core/channels/reasons.ts'
import { channelScheme } from '../../../core/domain/channel.ts'
import { encodeHeader } from '../../../core/x402/header.ts'
import { callThrough, type Got, MemoryTransport } from '../../helpers/memoryTransport.ts'
import { testAsset, testNetwork, testPayTo } from '../../helpers/settler.ts'
import { PRICE } from '../buyers.ts'
import { Chain } from '../chain.ts'
import type { World } from '../world.ts'
import { authorizer, channelIdOf, signatureOf } from './channelChain.ts'
import type { ChannelPayment, ChannelRequest, ChannelScene, Payer } from './scene.ts'

export const CHANNEL_PRICE = BigInt(PRICE)
/** Maximum requests for one call. */
const MAX_REQUESTS = 60
/** How long a client waits for a response, in ms. */
const PATIENCE_MS = 45_000

export function openPayer({ scheduler }: World, { payers, withdrawDelaySeconds }: ChannelScene): Payer {
  const name = `payer ${payers.length}`
  const payer = `0x${hash('sha256', `${scheduler.seed} ${name}`, 'hex').slice(24)}`
  const config = {
    payer,
    payerAuthorizer: payer,
    receiver: testPayTo.toLowerCase(),
    receiverAuthorizer: authorizer,
    token: testAsset.toLowerCase(),
    withdrawDelay: withdrawDelaySeconds,
    salt: `0x${'0'.repeat(64)}`,
  }
  const opened: Payer = {
    name,
    id: channelIdOf(config),
    config,
    charged: 0n,
    balance: 0n,
    signed: new Set(),
    current: undefined,
    depositFactor: 1n,
    calls: 0,
    deposits: 0,
  }
  payers.push(opened)
  return opened
}

/** Signs a payment. @param type with a deposit of some calls, or for a refund of all that is left */
export function signChannel(
  { scheduler }: World,
  payer: Payer,
  total: bigint,
  type: ChannelPayment['type'] = 'voucher',
): ChannelPayment {
  const { id, config, signed } = payer
  signed.add(total)
  const payload = {
    type,
    channelConfig: config,
    voucher: {
      channelId: id,
      maxClaimableAmount: String(total),
      signature: signatureOf(config.payerAuthorizer, id, total),
    },
    ...(type === 'deposit' && { deposit: depositOf(payer) }),
  }
  const accepted = { scheme: channelScheme, network: testNetwork, asset: testAsset }
  return { type, total, header: encodeHeader({ x402Version: 2, accepted, payload }) }

  function depositOf(by: Payer) {
    const validForMs = scheduler.pick([20_000, 300_000, 300_000])
    return {
      amount: String(by.depositFactor * CHANNEL_PRICE * BigInt(scheduler.pick([2, 5, 10]))),
      authorization: {
        erc3009Authorization: {
          validAfter: '0',
          validBefore: String(Math.floor((Chain.timeOf(scheduler.nowMs) + validForMs) / 1_000)),
          salt: String(++by.deposits),
          signature: `0x${'2'.repeat(128)}1b`,
        },
      },
    }
  }
}

/** What a client signs next, by what it believes of its channel. */
function nextPayment(world: World, payer: Payer): ChannelPayment {
  const total = payer.charged + CHANNEL_PRICE
  return signChannel(world, payer, total, total > payer.balance ? 'deposit' : 'voucher')
}

/** Sends a payment. @returns undefined when no response arrives */
export async function sendChannel(
  world: World,
  scene: ChannelScene,
  payer: Payer,
  payment: ChannelPayment,
  path: string,
): Promise<Got | undefined> {
  const { scheduler, store } = world
  const process = scheduler.pick(world.processes)
  if (!process.isUp || process.isDead) return undefined
  const served = store.served[0]!
  const transport = new MemoryTransport()
  const startedAtMs = scheduler.nowMs
  const x = callThrough(transport, served, { subPath: path, paymentHeader: payment.header, startedAtMs })
  const { promise: lost, resolve } = Promise.withResolvers<undefined>()
  const lose = () => {
    transport.isClosed = true
    resolve(undefined)
  }
  const request: ChannelRequest = { payer, payment, path, transport, x, process, startedAtMs, lose }
  scene.requests.push(request)
  world.tell('pay', payer.name, payment.type, payment.total, path, process.name)
  scheduler.at(Math.max(0, process.frozenUntilMs - startedAtMs), process, () => process.call(x, served))
  const patienceMs = world.fails(0.15) ? scheduler.between(20, 3_000) : PATIENCE_MS
  scheduler.at(patienceMs, null, () => {
    if (!process.isDead) scheduler.as(process, () => transport.abort())
  })
  const got = await Promise.race([transport.ended, lost])
  world.tell('paid', payer.name, payment.total, path, got?.status, got?.body)
  return got
}

/** One call of an honest client, which repeats what was lost and signs again what it is told to. @returns whether it got its response */
export async function callByChannel(
  world: World,
  scene: ChannelScene,
  payer: Payer,
  path: string,
): Promise<boolean> {
  const { scheduler } = world
  let payment = nextPayment(world, payer)
  for (let nth = 0; nth < MAX_REQUESTS; nth++) {
    payer.current = { payment, path }
    const got = await sendChannel(world, scene, payer, payment, path)
    await scheduler.wait(scheduler.between(10, 1_500))
    if (got?.status === 200) {
      hearState(payer, receiptOf(got).extra.channelState)
      return true
    }
    if (got?.status !== 402) {
      if (got !== undefined && ![404, 500, 502, 503, 504].includes(got.status))
        world.misuse ??= new Error(`${payer.name} was answered ${got.status} ${got.body}`)
      continue
    }
    const { error, accepts } = offerOf(got)
    const state = accepts.find(({ scheme }) => scheme === channelScheme)?.extra.channelState
    if (state !== undefined) hearState(payer, state)
    else if (mustDeposit.includes(error)) payer.balance = 0n
    else if (!mayDepositAgain.includes(error))
      world.misuse ??= new Error(`${payer.name} was refused for ${error}: ${got.body}`)
    if (error === channelReasons.exceedsBalance && payment.type === 'deposit') payer.depositFactor = 10n
    payment = nextPayment(world, payer)
  }
  return false
}

/** Nothing was deposited, so the payer makes another deposit. */
const mayDepositAgain: readonly string[] = [
  channelReasons.depositSimulation,
  channelReasons.depositFailed,
  channelReasons.validBefore,
]
const mustDeposit: readonly string[] = [channelReasons.exceedsBalance, channelReasons.notFound]

interface ChannelState {
  readonly balance: string
  readonly chargedCumulativeAmount: string
}

function hearState(payer: Payer, { balance, chargedCumulativeAmount }: ChannelState): void {
  payer.charged = BigInt(chargedCumulativeAmount)
  payer.balance = BigInt(balance)
}

const decoded = ({ headers }: Got, name: string) =>
  JSON.parse(Buffer.from(headers[headers.indexOf(name) + 1]!, 'base64').toString())

const receiptOf = (got: Got): { readonly extra: { readonly channelState: ChannelState } } =>
  decoded(got, 'PAYMENT-RESPONSE')

const offerOf = (
  got: Got,
): {
  readonly error: string
  readonly accepts: readonly {
    readonly scheme: string
    readonly extra: { readonly channelState?: ChannelState }
  }[]
} => decoded(got, 'PAYMENT-REQUIRED')
