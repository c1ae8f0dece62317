import { CopyButton } from '../components/copyButton.ts'
import { Countdown } from '../components/countdown.ts'
import { Time } from '../components/time.ts'
import { islandsOf, startIslands } from '../island/startIslands.ts'
import { providePayer } from './payer.ts'
import { SearchBox } from './searchBox.ts'
import { TryIt } from './tryIt.ts'

providePayer(async () => (await import('./browserPayer.ts')).browserPayer)
void startIslands(islandsOf(CopyButton, Time, Countdown, SearchBox, TryIt))

// A filter that is changed is applied; without a script there is a button.
for (const form of document.querySelectorAll<HTMLFormElement>('form[data-submits]')) {
  form.addEventListener('change', (event) => {
    if (event.target instanceof HTMLSelectElement) form.requestSubmit()
  })
}
