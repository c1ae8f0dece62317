import { base58 } from '@scure/base'
import { familyOf, feeDefaultsOf } from '../../domain/network.ts'
import { isLoopback } from '../../http/caller.ts'
import { readSigningKey } from '../../solana/ed25519.ts'
import { resolveAssets } from '../assets.ts'
import type { Finding } from '../check/explain.ts'
import { childPointer, type Pointer } from '../read/pointer.ts'
import type { NetworkConfig } from '../schema.ts'
import { mistake, type Rule, type RuleContext, warning } from './rule.ts'

/** Options of `facilitator` that apply to only one family of chains. */
const onlyFor = {
  eip155: ['maxGas', 'maxFeePerGasGwei', 'priorityFeePerGasGwei', 'factories'],
  solana: ['maxComputeUnits', 'maxMicroLamportsPerUnit'],
} as const
/** Limits on the costs of the gateway's own keys. */
const onlyOwn = ['minPrice', 'maxGasPerStoreAndDay'] as const

/** Rules about each network, on where its payments are settled and with which keys. */
export const networkRules: readonly Rule[] = [
  {
    reads: ['networks'],
    *check(context) {
      const networks = Object.entries(context.config.networks)
      if (networks.length === 0) {
        yield warning('/networks', 'networks is empty: only free links can be sold.', 'Add one to networks.')
      }
      for (const [id, network] of networks) {
        const at = childPointer('/networks', id)
        yield* checkFacilitator(id, network, at, context)
        yield* checkKeys(id, network, `${at}/facilitator`, context)
        yield* checkChannels(id, network, `${at}/channels`, context)
      }
    },
  },
  {
    reads: ['networks', 'assets'],
    *check({ config }) {
      const paidWith = new Set<string>(resolveAssets(config).map((asset) => asset.network))
      for (const id of Object.keys(config.networks)) {
        if (paidWith.has(id)) continue
        yield mistake(
          childPointer('/networks', id),
          `networks has ${id}, but assets has no token on it, and none is built in.`,
          'Add the token to assets.',
        )
      }
    },
  },
]

function* checkFacilitator(
  id: string,
  network: NetworkConfig,
  at: Pointer,
  context: RuleContext,
): Iterable<Finding> {
  const { privateKey, privateKeys, url } = network.facilitator
  const here = `${at}/facilitator`
  const keys = privateKeys !== undefined ? 'privateKeys' : privateKey !== undefined ? 'privateKey' : undefined
  if (keys === undefined && url === undefined) {
    yield mistake(
      here,
      'facilitator needs privateKey or privateKeys (to settle here), or url (of a server that settles).',
    )
  }
  if (keys !== undefined && url !== undefined) {
    yield mistake(
      here,
      `facilitator has both ${keys} and url.`,
      `Keep ${keys} to settle here, or url for a server that settles.`,
    )
  }
  if (privateKey !== undefined && privateKeys !== undefined) {
    yield mistake(
      here,
      'facilitator has both privateKey and privateKeys.',
      'Move the key into the list, and remove privateKey.',
    )
  }
  if (keys !== undefined && url === undefined && network.rpcUrls.length === 0) {
    yield mistake(at, `facilitator.${keys} needs at least one node in rpcUrls.`, 'Add rpcUrls: [https://…].')
  }
  yield* checkUnused(id, here, url !== undefined && keys === undefined, context)
  yield* checkTip(id, network, here)
  if (url === undefined) return
  const { protocol, hostname } = new URL(url)
  if (protocol === 'http:' && !isLoopback(hostname)) {
    yield warning(
      `${here}/url`,
      'facilitator.url is not https: an attacker on the network path can report payments as settled.',
    )
  }
}

/** A tip of the highest fee leaves nothing for the base fee, so that no payment would ever settle. */
function* checkTip(id: string, { facilitator }: NetworkConfig, here: Pointer): Iterable<Finding> {
  const fees = feeDefaultsOf(id)
  const { maxFeePerGasGwei: max = fees.maxFeePerGasGwei } = facilitator
  const { priorityFeePerGasGwei: tip = fees.priorityFeePerGasGwei } = facilitator
  if (tip < max) return
  yield mistake(
    here,
    `The tip of ${tip} gwei is not below maxFeePerGasGwei, which is ${max}.`,
    'maxFeePerGasGwei has to cover the base fee and the tip. Raise it, or lower priorityFeePerGasGwei.',
  )
}

/** Reports options that have no effect, because the operator may rely on such an option as a cap. */
function* checkUnused(id: string, here: Pointer, isRemote: boolean, context: RuleContext): Iterable<Finding> {
  const other = familyOf(id) === 'solana' ? 'eip155' : 'solana'
  for (const name of [...onlyFor.eip155, ...onlyFor.solana]) {
    if (!context.isWritten(`${here}/${name}`)) continue
    if (isRemote)
      yield mistake(`${here}/${name}`, `${name} has no effect with url: the limits of that server apply.`)
    else if ((onlyFor[other] as readonly string[]).includes(name)) {
      yield mistake(
        `${here}/${name}`,
        `${name} has no effect on ${id}.`,
        `It is an option of ${other} networks.`,
      )
    }
  }
  for (const name of onlyOwn) {
    if (isRemote && context.isWritten(`${here}/${name}`))
      yield mistake(`${here}/${name}`, `${name} has no effect with url: that server pays for gas.`)
  }
  if (!isRemote && context.isWritten(`${here}/headers`)) {
    yield mistake(`${here}/headers`, 'headers has no effect without url.')
  }
}

function* checkChannels(
  id: string,
  { channels, facilitator }: NetworkConfig,
  at: Pointer,
  context: RuleContext,
): Iterable<Finding> {
  if (channels === undefined) return
  if (familyOf(id) !== 'eip155') {
    yield mistake(
      at,
      `channels has no effect on ${id}.`,
      'Payment channels are an option of eip155 networks.',
    )
    return
  }
  if (facilitator.url !== undefined)
    yield mistake(
      at,
      'channels needs facilitator.privateKey: a remote facilitator sends no deposits or claims.',
    )
  for (const [i, key] of channels.authorizerKeys.entries())
    yield* checkKey(id, key, `${at}/authorizerKeys/${i}`, context)
}

function* checkKeys(
  id: string,
  { facilitator }: NetworkConfig,
  at: Pointer,
  context: RuleContext,
): Iterable<Finding> {
  const { privateKey, privateKeys = [] } = facilitator
  if (privateKey !== undefined) yield* checkKey(id, privateKey, `${at}/privateKey`, context)
  /** Places of keys by the secret itself, because a key has several spellings. */
  const places = new Map<string, number>()
  for (const [i, key] of privateKeys.entries()) {
    const here: Pointer = `${at}/privateKeys/${i}`
    yield* checkKey(id, key, here, context)
    const spelling = spellingOf(id, key)
    const first = places.get(spelling)
    if (first === undefined) places.set(spelling, i)
    else
      yield mistake(
        here,
        `privateKeys has the same key twice: entries ${first + 1} and ${i + 1}.`,
        'Remove one, or create another key: each needs its own account.',
      )
  }
}

function* checkKey(id: string, key: string, at: Pointer, context: RuleContext): Iterable<Finding> {
  if (!context.isFromEnvironment(at)) {
    yield warning(
      at,
      'The private key is written in this file.',
      `Put it in the environment and write ${/\d$/.test(at) ? '' : 'privateKey: '}\${NAME}.`,
    )
  }
  yield* familyOf(id) === 'solana' ? checkSolanaKey(key, at) : checkEvmKey(key, at)
}

function* checkEvmKey(key: string, at: Pointer): Iterable<Finding> {
  if (!evmKey.test(key)) {
    yield mistake(at, 'Expected an EVM private key: 0x and 64 hexadecimal digits.')
    return
  }
  const number = BigInt(key)
  if (number > 0n && number < SECP256K1_ORDER) return
  yield mistake(
    at,
    `Expected an EVM private key of at least 1 and below the order of secp256k1, got one that is ${number === 0n ? 'zero' : 'not below it'}.`,
    'Copy the key again, or create another one.',
  )
}

function* checkSolanaKey(key: string, at: Pointer): Iterable<Finding> {
  const bytes = solanaBytes(key)
  if (bytes?.length !== 64) {
    const came = bytes === undefined ? '' : `, got ${bytes.length} bytes`
    yield mistake(
      at,
      `Expected a Solana private key: 64 bytes in base58, or the JSON array of a keypair file${came}.`,
    )
  } else if (readSigningKey(bytes) === undefined) {
    yield mistake(
      at,
      'Expected a Solana private key whose bytes 33 to 64 are the public key of bytes 1 to 32, got another public key.',
      'Copy the whole key again, or create another one with `solana-keygen new`.',
    )
  }
}

/** A single spelling for each key, by which keys are compared. */
function spellingOf(id: string, key: string): string {
  if (familyOf(id) !== 'solana') return key.toLowerCase()
  const bytes = solanaBytes(key)
  return bytes === undefined ? key : base58.encode(bytes)
}

/** The bytes of a key. Undefined if the text has neither of the two forms of a key. */
function solanaBytes(key: string): Uint8Array | undefined {
  if (base58Text.test(key)) return base58.decode(key)
  if (!byteList.test(key)) return undefined
  const numbers = JSON.parse(key) as number[]
  return numbers.every((number) => number <= 255) ? Uint8Array.from(numbers) : undefined
}

const evmKey = /^0x[0-9a-fA-F]{64}$/
/** A longer text is no key, and the time to decode it would grow with the square of its length. */
const base58Text = /^[1-9A-HJ-NP-Za-km-z]{1,128}$/
/** JSON allows no leading zero. */
const byteList = /^\s*\[\s*(0|[1-9]\d{0,2})(\s*,\s*(0|[1-9]\d{0,2})){0,127}\s*\]\s*$/
/** The order of the curve. A private key is below it (SEC 2, section 2.4.1). */
const SECP256K1_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
