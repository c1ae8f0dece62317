import { approvalStates } from '../approvals/approval.ts'
import { request } from './request.ts'
import { boolean, choice, type Field, list, text, wholeNumber } from './schema.ts'

const password = text('The password of the vault.', 1_024)
const family = choice(['evm', 'solana'], 'The kind of chain that the key is for.')
const keyId = text('The key, by its id.', 128)
const scopes = list(text('A grant, such as identity.name or ask:wallet.base.'), 'What the agent may use.')
const requestsPerMinute: Field<number | null> = {
  type: ['integer', 'null'],
  description: 'How often the agent may send requests.',
}

const resumed: Field<false> = {
  type: 'boolean',
  enum: [false],
  description: 'False resumes an agent that a restore suspended. To end an agent, revoke it.',
}

const forTests = boolean('True for a key that is used only on test chains.')

export const unlockRequest = request({ password })

export const approvalsQuery = request({ 'status?': choice(approvalStates, 'Only approvals in this state.') })
export const approveRequest = request({
  decision_hash: text('Of what was shown: SHA-256 in hex.', 128),
  'second_word?': text('What the owner typed, where the approval requires it.', 64),
})

export const newAgentRequest = request({
  name: text('Its name.', 64),
  scopes,
  'requests_per_minute?': requestsPerMinute,
})
export const agentChange = request({
  'scopes?': scopes,
  'requests_per_minute?': requestsPerMinute,
  'suspended?': resumed,
})

export const pairingRequest = request({
  service_id: text('Name of the remote service.', 64),
  agent: text('The agent that it acts for, by name or id.', 64),
})
export const pairingChange = request({ suspended: resumed })
export const signInRequest = request({ code: text('Of a link to the page.', 128) })

export const deriveRequest = request({
  family,
  index: wholeNumber(0, 2 ** 31 - 1, 'Index of the account derived from the recovery words.'),
  'test?': forTests,
})
export const keyRequest = request({ id: keyId })
export const importKeyRequest = request({
  password,
  family,
  name: text('Its name.', 64),
  private_key: text('The key as wallets write it.', 1_024),
  'test?': forTests,
})
export const exportKeyRequest = request({ password, id: keyId })
export const mnemonicRequest = request({ password, mnemonic: text('Twelve to twenty-four words.', 1_024) })
export const passwordRequest = request({ password })
export const newPasswordRequest = request({ password, new_password: text('The new password.', 1_024) })
export const backupRequest = request({
  file: text('Absolute path of a file that does not exist yet.', 4_096),
})
