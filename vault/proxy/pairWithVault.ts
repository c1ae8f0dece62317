import { createHash, randomBytes } from 'node:crypto'
import { VaultError } from '../errors/error.ts'
import { createKeyPair, toStored } from '../remote/channel/keyPair.ts'
import { encodeMessage, type Message } from '../remote/channel/message.ts'
import { commitmentTo, pairingPhrase } from '../remote/channel/phrase.ts'
import {
  formatPairToken,
  type PairToken,
  preSharedOf,
  tokenHeaderKey,
  tokenRecordOf,
} from '../remote/pairToken.ts'
import { type AgentEnd, NoAnswer, Notice } from './agentEnd.ts'
import type { ProxyState, ProxyStateFile } from './proxyState.ts'
import { assertOk, ownChannelOf, unreached } from './vaultClient.ts'

/** How long the first answer of the vault may take, in milliseconds; the owner may have to start it first. */
const REACH_MS = 10 * 60_000
/** Longer than the vault waits for the owner before it says that it still waits. */
const ANSWER_MS = 45_000

/** What a token makes of a proxy that knows nothing yet. */
export function newPairing(
  token: PairToken,
  names: { readonly vaultId: string; readonly serviceId: string; readonly hpkeKey: string },
): ProxyState {
  return {
    version: 1,
    vaultId: names.vaultId,
    serviceId: names.serviceId,
    route: token.route.toString('base64'),
    givenKey: names.hpkeKey,
    hpkeKey: names.hpkeKey,
    generation: 0,
    staticKey: toStored(createKeyPair('X25519')),
    nonce: randomBytes(32).toString('base64'),
    tokenHash: tokenHashOf(token),
    isPaired: false,
  }
}

/** Recognises a token without keeping it. */
export const tokenHashOf = (token: PairToken): string =>
  createHash('sha256').update(formatPairToken(token)).digest('base64')

/**
 * Pairs, or goes on where a proxy was stopped: what was promised is on disk before it is sent, so each step can be taken
 * again with the same result.
 *
 * @param token absent when a former life of the proxy already used it
 * @param onPhrase shows the four words; the owner compares them with what the vault shows
 * @returns the state of a paired proxy, stored
 * @throws VaultError: `PAIR_USED`, `PAIR_EXPIRED`, `APPROVAL_DENIED`, or why the vault could not be asked
 */
export async function pairWithVault(
  end: AgentEnd,
  pending: ProxyState,
  token: PairToken | undefined,
  file: ProxyStateFile,
  onPhrase: (phrase: string) => void,
): Promise<ProxyState> {
  try {
    const claimed = pending.vault ? pending : await claim(end, pending, token!, file)
    onPhrase(phraseOf(claimed))
    await confirmed(end, claimed)
    const paired = { ...claimed, isPaired: true }
    await file.write(paired)
    return paired
  } catch (error) {
    const code = (error as { code?: unknown }).code
    if (terminal.has(String(code))) await file.removePending()
    throw error
  }
}

/** After these, trying again with the same token is of no use. */
const terminal: ReadonlySet<string> = new Set([
  'PAIR_USED',
  'PAIR_EXPIRED',
  'APPROVAL_DENIED',
  'UNAUTHORIZED',
])

async function claim(
  end: AgentEnd,
  pending: ProxyState,
  token: PairToken,
  file: ProxyStateFile,
): Promise<ProxyState> {
  await file.write(pending)
  const record = tokenRecordOf(token)
  const { vaultId, serviceId } = pending
  const channel = { vaultId, serviceId, route: token.route, headerKey: tokenHeaderKey(record, token.route) }
  const commitment = commitmentTo(Buffer.from(pending.nonce, 'base64')).toString('base64')
  const head = await ask(end, () =>
    end.send({
      kind: 'begin',
      content: encodeMessage({ token: formatPairToken(token), commitment }),
      to: Buffer.from(pending.hpkeKey, 'base64'),
      channel,
      psk: preSharedOf(record, token.route),
      waitMs: ANSWER_MS,
    }),
  )
  const [signingKey, headerKey, vaultNonce] = ['signingKey', 'headerKey', 'vaultNonce'].map((name) =>
    String(head[name]),
  )
  const claimed = {
    ...pending,
    vault: { signingKey: signingKey!, headerKey: headerKey!, vaultNonce: vaultNonce! },
  }
  await file.write(claimed)
  return claimed
}

/** Asks until the owner has decided. */
async function confirmed(end: AgentEnd, claimed: ProxyState): Promise<void> {
  const channel = ownChannelOf(claimed)
  const finish = () =>
    end.send({
      kind: 'finish',
      content: encodeMessage({ nonce: claimed.nonce }),
      to: Buffer.from(claimed.hpkeKey, 'base64'),
      channel,
      waitMs: ANSWER_MS,
    })
  while ((await ask(end, finish))['state'] !== 'paired');
}

/** Sends a pairing message, once more when the vault's clock or its life was another; all of them may be repeated. */
async function ask(end: AgentEnd, send: () => Promise<Message>): Promise<Message['head']> {
  for (let left = 3; ; left--) {
    if (!(await end.untilReached(REACH_MS))) throw unreached(end.reach)
    try {
      const { head } = await send()
      assertOk(head)
      return head
    } catch (error) {
      if (error instanceof Notice && error.kind === 'unopened')
        throw new VaultError(
          'VALIDATION_ERROR',
          'The vault can not open what this proxy seals: check --hpke-key, --vault and --service-id.',
        )
      if (error instanceof Notice && error.kind === 'revoked')
        throw new VaultError('UNAUTHORIZED', 'The owner revoked this pairing; a new pair token is needed.')
      const mayRepeat = error instanceof NoAnswer || error instanceof Notice
      if (!mayRepeat) throw error
      if (left > 1) continue
      throw error instanceof NoAnswer
        ? unreached(end.reach === 'nowhere' ? 'nowhere' : 'relay')
        : new VaultError('VAULT_UNREACHABLE', error.message)
    }
  }
}

function phraseOf(claimed: ProxyState): string {
  const { vaultId, serviceId, route, givenKey, nonce, staticKey, vault } = claimed
  return pairingPhrase({
    vaultId,
    serviceId,
    route: Buffer.from(route, 'base64'),
    vaultKey: Buffer.from(givenKey, 'base64'),
    signingKey: Buffer.from(vault!.signingKey, 'base64'),
    proxyKey: Buffer.from(staticKey.publicKey, 'base64'),
    proxyNonce: Buffer.from(nonce, 'base64'),
    vaultNonce: Buffer.from(vault!.vaultNonce, 'base64'),
  })
}
