import { copyable } from '../dialog.js'
import { field, input } from '../fields.js'
import { fill, h } from '../html.js'

/**
 * For whoever has no session: how to get one. The link can be pasted, too: an installed page has no address bar.
 *
 * @param {HTMLElement} main @param {{ problem?: string | undefined, onsignedin: () => void }} options
 */
export function showSignIn(main, { problem }) {
  const link = input('link', { type: 'password', required: true })
  const wrong = h('p', { class: 'problem', role: 'alert', hidden: problem === undefined }, problem ?? '')
  const form = h(
    'form',
    { novalidate: true },
    field('Link', link, 'Paste what the command printed.'),
    wrong,
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'button primary' }, 'Sign in')),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const code = /(?:#code=)?([A-Za-z0-9_-]{16,128})$/.exec(link.value.trim())?.[1]
    link.value = ''
    if (code !== undefined) {
      location.hash = `#code=${code}`
      return
    }
    fill(wrong, 'That is no link of this vault. Copy the whole line that begins with http.')
    wrong.hidden = false
    link.focus()
  })
  fill(
    main,
    h(
      'section',
      { class: 'gate' },
      h('h1', {}, 'Sign in as the owner'),
      h('p', {}, 'On the machine of the vault, run this and open the link that it prints. It works once.'),
      copyable('tollgate vault open', 'command'),
      form,
    ),
  )
}
