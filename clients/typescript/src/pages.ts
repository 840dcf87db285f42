/** A page of a list. */
interface Page<Item> {
  items: Item[];
  pagination: { next_cursor: string | null };
}

const limit = 100;

/** The items of all pages of a list. What ends or begins meanwhile neither hides nor repeats other items. */
export async function* allPages<Item>(
  read: (query: { limit: number; cursor?: string }) => Promise<Page<Item>>,
): AsyncGenerator<Item, void> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { items, pagination } = await read({ limit, ...(cursor && { cursor }) });
    yield* items;
    cursor = pagination.next_cursor;
  }
}
