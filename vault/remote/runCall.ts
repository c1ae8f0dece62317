import type { Log } from '../../core/ports/log.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { errorBody } from '../errors/errorBody.ts'
import { encodeMessage, type Message } from './channel/message.ts'
import type { LivePairing } from './livePairing.ts'
import { isSuspended } from './pairingRecord.ts'
import {
  answerHeaders,
  pickHeaders,
  type RemoteAnswer,
  type RemoteRequest,
  readRemoteCall,
} from './remoteRequest.ts'

/** Calls of one pairing that the host performs at once. */
const MAX_RUNNING = 32

/** Lets the host perform one opened call. @returns the answer's message; what was thrown has become one, too. */
export async function runCall(
  live: LivePairing,
  message: Message,
  handle: (request: RemoteRequest) => Promise<RemoteAnswer>,
  log: Log,
): Promise<Buffer> {
  if (live.running >= MAX_RUNNING)
    return failed(new VaultError('RATE_LIMIT_EXCEEDED', undefined, { retryAfterSeconds: 1 }))
  if (isSuspended(live.record)) return failed(new VaultError('AGENT_SUSPENDED'))
  live.running++
  try {
    const { agentId, id: pairingId, serviceId } = live.record
    const { signal } = live.waits
    const request = { agentId, pairingId, serviceId, signal, ...readRemoteCall(message) }
    const { status, headers = {}, body = '' } = await handle(request)
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new RangeError(`expected a status from 200 to 599, got ${status}`)
    const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body
    return encodeMessage({ status, headers: pickHeaders(headers, answerHeaders) }, bytes)
  } catch (error) {
    if (!isVaultError(error)) log.error({ err: error, pairing: live.record.id }, 'a remote call failed')
    return failed(error)
  } finally {
    live.running--
  }
}

function failed(error: unknown): Buffer {
  const seconds = isVaultError(error) ? error.retryAfterSeconds : undefined
  const headers = {
    'content-type': 'application/json',
    ...(seconds === undefined ? {} : { 'retry-after': String(seconds) }),
  }
  const status = isVaultError(error) ? error.status : 500
  return encodeMessage({ status, headers }, Buffer.from(JSON.stringify(errorBody(error))))
}
