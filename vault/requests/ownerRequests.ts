import { approvalStates } from '../approvals/approval.ts'
import { request } from './request.ts'
import { boolean, choice, type Field, list, text, wholeNumber } from './schema.ts'

const password = text('The password of the vault.', 1_024)
const family = choice(['evm', 'solana'], 'The kind of chain that the key is for.')
const keyId = text('The key, by its id.', 128)
const scopes = list(text('A grant, such as identity.name or ask:wallet.base.'), 'What the agent may use.')
const requestsPerMinute: Field<number | null> = {
  type: ['integer', 'null'],
  description: 'How often the agent may ask.',
}

const resumed: Field<false> = {
  type: 'boolean',
  enum: [false],
  description: 'False lets go on what a restore suspended; to shut one out, revoke it.',
}

const forTests = boolean('True for a key of test chains only.')

export const unlockRequest = request({ password })

export const approvalsQuery = request({ 'status?': choice(approvalStates, 'Only these.') })
export const approveRequest = request({
  decision_hash: text('Of what was shown: SHA-256 in hex.', 128),
  'second_word?': text('What the owner typed, where the approval demands it.', 64),
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
  index: wholeNumber(0, 2 ** 31 - 1, 'Which account of the recovery words.'),
  'test?': forTests,
})
export const keyRequest = request({ id: keyId })
export const importKeyRequest = request({
  password,
  family,
  name: text('What it is called.', 64),
  private_key: text('The key as wallets write it.', 1_024),
  'test?': forTests,
})
export const exportKeyRequest = request({ password, id: keyId })
export const mnemonicRequest = request({ password, mnemonic: text('Twelve to twenty-four words.', 1_024) })
export const passwordRequest = request({ password })
export const newPasswordRequest = request({ password, new_password: text('The next one.', 1_024) })
export const backupRequest = request({ file: text('Absolute path of a file that is not there yet.', 4_096) })
