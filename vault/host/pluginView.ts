import type { VaultExchange } from '../../core/plugin/vault.ts'
import { isVaultError } from '../errors/error.ts'
import type { VaultCall } from './vaultCall.ts'

/** What a plugin is told of a request: a copy of its meaning, never its bytes and never a value that is to be stored. */
export function pluginView(x: VaultCall): VaultExchange {
  const { operation, requestId, caller, via, startedAtMs, scope, request, reasons, failure } = x
  const { value: _value, ...withoutValue } = x.input
  return {
    operation,
    requestId,
    caller,
    via,
    input: operation === 'vault_write' ? withoutValue : x.input,
    startedAtMs,
    scope,
    request,
    verdict: { decision: reasons.length === 0 ? 'allow' : 'ask', reasons },
    failure: failure && {
      code: isVaultError(failure) ? failure.code : 'INTERNAL_ERROR',
      message: isVaultError(failure) ? failure.message : '',
    },
  }
}
