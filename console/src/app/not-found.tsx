import { Link } from '@tanstack/react-router';

export function NotFound() {
  return (
    <div className="page">
      <h1>No such page</h1>
      <p>
        This address belongs to no page of the console. <Link to="/">To the overview</Link>
      </p>
    </div>
  );
}
