/**
 * The script of every page of the documentation. It runs the navigation beside the page, the copy buttons,
 * and `/` for the search.
 */

/** How long a button shows that it has copied, in ms. */
const LABEL_MS = 2_000

// In wide windows the stylesheet shows the list even if it is closed. Assistive technology uses `open`, so it is set too.
const pages = document.querySelector<HTMLDetailsElement>('.all-pages')!
const isWide = matchMedia('(min-width: 900px)')
const openWhereWide = () => (pages.open = isWide.matches)
isWide.addEventListener('change', openWhereWide)
openWhereWide()

for (const code of document.querySelectorAll<HTMLElement>('.code:not([data-language=text])')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'button small copy'
  button.textContent = 'Copy'
  button.setAttribute('aria-live', 'polite')
  button.addEventListener('click', async () => {
    const shown = code.querySelector('code')!
    const isCopied = await navigator.clipboard?.writeText(shown.textContent).then(
      () => true,
      () => false,
    )
    button.textContent = isCopied ? 'Copied' : 'Not allowed'
    // If copying is not permitted, the text is selected, so that the reader can copy it by keyboard.
    if (!isCopied) getSelection()?.selectAllChildren(shown)
    setTimeout(() => (button.textContent = 'Copy'), LABEL_MS)
  })
  code.prepend(button)
}

document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey
  if (event.key !== '/' || isTyping) return
  event.preventDefault()
  document.querySelector<HTMLInputElement>('#page-search')?.focus()
})
