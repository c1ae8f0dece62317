/** @import { VaultLimit } from '../../../host/ownerRules.ts' */
/** @import { Policy } from '../../../policy/policy.ts' */
/** @import { Asset } from './budget.js' */
import { openForm } from '../dialog.js'
import { area, choice, field, input, linesOf } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, Refusal, wordsOf } from '../session.js'
import { chainTitle } from '../words.js'
import { createVaultLimits } from './vaultLimitsForm.js'

/** @type {Policy} */
const blank = { assets: [], recipients: 'any' }
/** What the owner writes of limits over all agents, to begin with. */
const blankVault = { limits: [{ chain: 'base', symbol: 'USDC', perDay: '100' }] }

/** @type {readonly (readonly [string, string])[]} */
const askOrDeny = [
  ['ask', 'Ask me'],
  ['deny', 'Refuse'],
]
/** @type {readonly (readonly [string, string])[]} */
const anyOfThree = [['auto', 'By the limits'], ...askOrDeny]

/**
 * The usual limits as a form; the rest (fees, hours) as JSON, which the form leaves as it is.
 *
 * @param {{ id: string, name: string, policy: unknown, assets: readonly Asset[], onsaved: () => Promise<void> }} options
 */
export function editPolicy({ id, name, policy, assets, onsaved }) {
  const isVault = id === 'vault'
  const body = h('div', {})
  /** @type {(form: FormData) => unknown} */
  let read = () => policy
  if (isVault) showVaultForm(/** @type {typeof blankVault} */ (policy ?? blankVault))
  else showForm(/** @type {Policy} */ (policy ?? blank))
  openForm({
    title: `Policy: ${name}`,
    content: [body],
    action: 'Save',
    async send(form) {
      await call('PUT', `/policies/${encodeURIComponent(id)}`, /** @type {object} */ (read(form)))
      await onsaved()
    },
  }).classList.add('wide')

  /** @param {unknown} value */
  function showJson(value) {
    const text = area('json', JSON.stringify(value, null, 2), { rows: 16, class: 'json' })
    read = () => parse(text.value)
    fill(
      body,
      field(
        'As JSON',
        text,
        isVault
          ? 'limits: chain, symbol, and any of perTransaction, perDay, recipient; fees: chain, perTransaction, perDay. Amounts as text.'
          : 'Everything that a policy can say: assets, fees, recipients, otherRecipients, allowances, opaque, messages, hours.',
      ),
      button(
        'Back to the form',
        () => {
          try {
            if (isVault) showVaultForm({ limits: [], ...parse(text.value) })
            else showForm(/** @type {Policy} */ ({ ...blank, ...parse(text.value) }))
          } catch (error) {
            text.setCustomValidity(wordsOf(error))
            text.reportValidity()
            text.setCustomValidity('')
          }
        },
        { kind: 'small' },
      ),
    )
  }

  /** What it does not have, such as fees, it leaves as it is. @param {{ limits: readonly VaultLimit[] }} value */
  function showVaultForm(value) {
    const limits = createVaultLimits(assets, value.limits)
    read = () => ({ ...value, limits: limits.read() })
    fill(body, limits.element, toJson())
  }

  function toJson() {
    return button(
      'Edit as JSON',
      () => showJson(read(new FormData(/** @type {HTMLFormElement} */ (body.closest('form'))))),
      { kind: 'small' },
    )
  }

  /** @param {Policy} value */
  function showForm(value) {
    const rows = h(
      'div',
      { class: 'limit-rows' },
      value.assets.map((rule) => limitRow(assets, rule)),
    )
    if (value.assets.length === 0) rows.append(limitRow(assets))
    const listed = value.recipients === 'any' ? [] : value.recipients
    const who = choice(
      'who',
      [
        ['any', 'Anybody'],
        ['listed', 'Listed addresses only'],
      ],
      value.recipients === 'any' ? 'any' : 'listed',
    )
    const addresses = area('recipients', listed.map(({ chain, address }) => `${chain} ${address}`).join('\n'))
    const strangers = choice('otherRecipients', askOrDeny, value.otherRecipients ?? 'deny')
    const list = h(
      'div',
      {},
      field('Addresses', addresses, 'One a line: chain and address, such as base 0x…'),
      field('Anybody else', strangers),
    )
    const showList = () => (list.hidden = who.value === 'any')
    who.addEventListener('change', showList)
    showList()
    const allowances = choice('allowances', anyOfThree, value.allowances ?? 'ask')
    const opaque = choice('opaque', askOrDeny, value.opaque ?? 'ask')
    const messages = choice('messages', [['auto', 'Sign them'], ...askOrDeny], value.messages ?? 'ask')
    read = (form) => ({
      ...value,
      assets: [...rows.children].map(readRow).filter((rule) => rule !== undefined),
      recipients: who.value === 'any' ? 'any' : linesOf(addresses.value).map(readAddress),
      ...(who.value === 'any' ? {} : { otherRecipients: strangers.value }),
      ...Object.fromEntries(['allowances', 'opaque', 'messages'].map((key) => [key, form.get(key)])),
    })
    fill(
      body,
      h('h3', {}, 'Spending'),
      rows,
      button('Add an asset', () => rows.append(limitRow(assets)), { kind: 'small', icon: 'plus' }),
      h('h3', {}, 'Recipients'),
      field('May pay', who),
      list,
      h('h3', {}, 'Otherwise'),
      h(
        'div',
        { class: 'columns' },
        field('Allowances', allowances, 'Rights to take money later.'),
        field('Not understood', opaque),
        field('Messages', messages, 'Texts that move no money.'),
      ),
      toJson(),
    )
  }
}

/** @param {readonly Asset[]} assets @param {Policy['assets'][number]} [rule] */
function limitRow(assets, rule) {
  /** @type {[string, string][]} */
  const options = assets.map(({ chain, symbol }) => [
    `${chain} ${symbol}`,
    `${symbol} on ${chainTitle(chain)}`,
  ])
  const mine = rule === undefined ? 'base USDC' : `${rule.chain} ${rule.symbol}`
  // One that is not offered here any more is kept as it is.
  if (!options.some(([value]) => value === mine)) options.push([mine, mine])
  const amount = (/** @type {string} */ name, /** @type {string | undefined} */ value) =>
    input(name, { inputmode: 'decimal', value: value ?? '', placeholder: '0' })
  const row = h(
    'fieldset',
    { class: 'limit-row' },
    h('legend', { class: 'visually-hidden' }, 'Limits of an asset'),
    field('Asset', choice('asset', options, mine)),
    field('Without asking up to', amount('autoApproveUpTo', rule?.autoApproveUpTo)),
    field('At most at once', amount('perTransaction', rule?.perTransaction)),
    field('At most a day', amount('perDay', rule?.perDay)),
    button('Remove', () => row.remove(), { kind: 'small quiet', name: 'Remove this asset' }),
  )
  return row
}

/** @param {Element} row @returns undefined where nothing was filled in */
function readRow(row) {
  const value = (/** @type {string} */ name) =>
    /** @type {HTMLInputElement | null} */ (row.querySelector(`[name="${name}"]`))?.value.trim() ?? ''
  const [chain = '', symbol = ''] = value('asset').split(' ')
  const amounts = ['perTransaction', 'perDay', 'autoApproveUpTo'].map((name) => [name, value(name)])
  if (amounts.every(([, text]) => text === '')) return undefined
  return {
    chain,
    symbol,
    ...Object.fromEntries(amounts.map(([name, text]) => [name, text === '' ? '0' : text])),
  }
}

/** @param {string} line */
function readAddress(line) {
  const [chain = '', address = ''] = line.split(/\s+/)
  return { chain, address }
}

/** @param {string} text @returns {object} */
function parse(text) {
  try {
    const value = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Said below.
  }
  throw new Refusal('VALIDATION_ERROR', 'That is no JSON object.')
}
