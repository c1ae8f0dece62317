/** @import { AgentView } from '../../../agents/agent.ts' */
/** @import { PolicyView } from '../../../host/policyView.ts' */
/** @import { Policy } from '../../../policy/policy.ts' */
import { openForm } from '../dialog.js'
import { cardHead, failed, heading, loading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { chainTitle } from '../words.js'
import { assetsOf } from './budget.js'
import { editPolicy } from './policyForm.js'

/**
 * By which rules the vault decides without asking: one policy for each agent, one for those without, and limits for all
 * of them together.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showPolicies(main) {
  const list = h('div', { class: 'cards' }, loading())
  let isLeft = false
  fill(
    main,
    heading('Policies'),
    h(
      'p',
      { class: 'lead' },
      'What a policy does not allow by itself, you are asked about. What is above its limits is refused.',
    ),
    list,
  )
  void load()
  return () => {
    isLeft = true
  }

  async function load() {
    try {
      const [{ policies }, { agents }, assets] = await Promise.all([
        call('GET', '/policies'),
        call('GET', '/agents'),
        assetsOf(),
      ])
      if (isLeft) return
      /** @type {Map<string, unknown>} */
      const byId = new Map(policies.map((/** @type {PolicyView} */ one) => [one.id, one.policy]))
      /** @type {Map<string, PolicyView>} */
      const views = new Map(policies.map((/** @type {PolicyView} */ one) => [one.id, one]))
      const live = /** @type {AgentView[]} */ (agents).filter((one) => one.revoked_at === null)
      const subjects = [
        ...live.map(({ id, name }) => ({
          id,
          name,
          hint: byId.has('default')
            ? 'The policy for all others holds.'
            : 'No policy: you are asked about everything.',
        })),
        { id: 'default', name: 'All others', hint: 'No policy: you are asked about everything.' },
        { id: 'vault', name: 'Whole vault', hint: 'No limits over all agents together.' },
      ]
      fill(
        list,
        subjects.map(({ id, name, hint }) => cardOf(id, name, hint, byId.get(id))),
      )

      /** @param {string} id @param {string} name @param {string} hint @param {unknown} policy */
      function cardOf(id, name, hint, policy) {
        return h(
          'article',
          { class: 'card', 'aria-label': `Policy: ${name}` },
          cardHead(name),
          policy === undefined ? h('p', { class: 'muted' }, hint) : summary(policy, views.get(id)),
          h(
            'div',
            { class: 'actions' },
            button(
              policy === undefined ? 'Set' : 'Edit',
              () => editPolicy({ id, name, policy, assets, onsaved: load }),
              {
                kind: 'small',
                name: `${policy === undefined ? 'Set' : 'Edit'} policy: ${name}`,
              },
            ),
            policy === undefined
              ? null
              : button('Remove', () => remove(id, name), {
                  kind: 'small danger',
                  name: `Remove policy: ${name}`,
                }),
          ),
        )
      }
    } catch (error) {
      if (!isLeft)
        fill(
          list,
          failed(wordsOf(error), () => void load()),
        )
    }
  }

  /** @param {string} id @param {string} name */
  function remove(id, name) {
    openForm({
      title: `Remove the policy: ${name}?`,
      content: [h('p', {}, 'What it allowed by itself, you are asked about from then on.')],
      action: 'Remove',
      kind: 'danger',
      async send() {
        await call('DELETE', `/policies/${encodeURIComponent(id)}`)
        await load()
      },
    })
  }
}

/** @typedef {{ chain: string, symbol: string, perTransaction?: string, perDay?: string, autoApproveUpTo?: string, recipient?: string }} Line */

/** @param {unknown} policy @param {PolicyView} [view] */
function summary(policy, view) {
  const { assets, limits, recipients } = /** @type {Partial<Policy> & { limits?: Line[] }} */ (policy)
  const lines = /** @type {Line[]} */ ([...(assets ?? limits ?? [])])
  for (const { symbol, ...fee } of view?.fees ?? []) lines.push({ ...fee, symbol: `Fees in ${symbol}` })
  return h(
    'div',
    {},
    lines.length === 0 ? h('p', { class: 'muted' }, 'It may spend nothing.') : null,
    h(
      'ul',
      { class: 'limits' },
      lines.map(({ chain, symbol, perTransaction, perDay, autoApproveUpTo, recipient }) =>
        h(
          'li',
          {},
          h('strong', {}, symbol),
          h('span', { class: 'muted' }, ` on ${chainTitle(chain)}`),
          h(
            'dl',
            {},
            autoApproveUpTo === undefined ? [] : fact('without asking', `up to ${autoApproveUpTo}`),
            perTransaction === undefined ? [] : fact('at once', `at most ${perTransaction}`),
            perDay === undefined ? [] : fact('a day', `at most ${perDay}`),
            recipient === undefined ? [] : fact('to', recipient),
            view?.without_scope.includes(chain) ? fact('does not apply', `no scope wallet.${chain}`) : [],
          ),
        ),
      ),
    ),
    recipients === undefined
      ? null
      : h(
          'p',
          { class: 'muted small-text' },
          recipients === 'any'
            ? 'To any recipient.'
            : `To ${recipients.length} listed ${recipients.length === 1 ? 'recipient' : 'recipients'}.`,
        ),
  )
}

/** @param {string} term @param {string} value */
const fact = (term, value) => [h('dt', {}, term), h('dd', {}, value)]
