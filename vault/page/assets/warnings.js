import { byId, fill, h, icon } from './html.js'

/** What the vault itself warns its owner of; this page need not know its codes. */
/** @typedef {{ code: string, message: string, action?: string | null }} Warning */

let drawn = ''

/**
 * Shows what the vault's status warns of above every view, and nothing where there is nothing.
 *
 * @param {{ warnings?: readonly Warning[], log_damage?: string | null }} status
 */
export function showWarnings({ warnings = [], log_damage = null }) {
  const all = [...warnings]
  if (log_damage !== null && !all.some(({ message }) => message.includes(log_damage)))
    all.unshift({
      code: '',
      message: `The log is damaged: ${log_damage}`,
      action:
        'Verify it under Activity. If you do not know why, restore a backup and give your agents new tokens.',
    })
  const now = JSON.stringify(all)
  // Said once: a live region repeats what is drawn anew.
  if (now === drawn) return
  drawn = now
  const section = byId('warnings')
  section.hidden = all.length === 0
  fill(
    section,
    all.map(({ message, action }) =>
      h(
        'div',
        { class: 'banner' },
        icon('warning'),
        h(
          'div',
          {},
          h('strong', {}, h('bdi', {}, message)),
          action ? h('p', {}, h('bdi', {}, action)) : null,
        ),
      ),
    ),
  )
}
